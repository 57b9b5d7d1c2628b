// What generation_config.json says about speech, and what the decoder begins with.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "easydel/generation/speech/transcribe.h"

namespace easydel {

// The keys of generation_config.json that only Whisper has. ConfigError names one that is missing or wrong.
class SpeechKeys {
 public:
  SpeechKeys(const GenerationConfig& config, const BaseConfig& model) : config_(config), model_(model) {}

  const Json* find(const char* key) const;  // null where it is absent or null
  std::optional<int64_t> token(const char* key) const;
  // The token of a name in lang_to_id or task_to_id.
  int64_t named(const char* key, const std::string& name, const char* what) const;
  std::vector<int64_t> values(const char* key) const;
  std::optional<std::string> text(const char* key) const;
  std::optional<double> number(const char* key) const;
  // The tokens behind the first that older files force; -1: left open.
  std::vector<int64_t> forced() const;

 private:
  void require_token(const Json& id, const char* key) const;

  const GenerationConfig& config_;
  const BaseConfig& model_;
};

// The logits [V] behind the decoder's tokens, where the encoder's states are known.
at::Tensor logits_behind(const BaseModule& module, const at::Tensor& states, const std::vector<int64_t>& ids);

// The tokens that say the language, the task and whether times are wanted. A language that nobody names is the
// likeliest one of what these states were made of.
std::vector<int64_t> first_tokens(const BaseModule& module, const at::Tensor& states, const SpeechKeys& keys,
                                  const TranscribeOptions& options, const GenerationConfig& config, bool timestamps);

}  // namespace easydel
