// What one window of sound says, heard again at another temperature where the text looks wrong.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "easydel/generation/generate.h"
#include "easydel/generation/speech/first_tokens.h"

namespace easydel {

struct HeardWindow {
  std::vector<int64_t> tokens;      // without the end token
  std::vector<double> token_times;  // when each ends, in seconds of the window; with return_token_timestamps
  double temperature = 0;           // of the last try
  bool is_silence = false;          // nothing was said
};

class WindowHearing {
 public:
  // ConfigError where an option needs what generation_config.json lacks.
  WindowHearing(const BaseModule& module, const GenerationConfig& config, const TranscribeOptions& options,
                const SpeechKeys& keys, bool timestamps);

  // Of features [1, F, frames], which became these states, behind the decoder's `ids`, of which the first `prompt` are
  // earlier text. `frames` of it are sound.
  HeardWindow hear(const at::Tensor& features, const at::Tensor& states, const std::vector<int64_t>& ids,
                   std::size_t prompt, int64_t frames);
  bool prompts_next(const HeardWindow& heard) const;  // whether its text is a prompt for the next window
  // Whether the text so far is a prompt at all, as long as windows are heard well.
  bool conditions() const { return conditions_; }
  // The end of the text so far, which begins with that of the given prompt, behind the token that says so.
  std::vector<int64_t> prompt_of(const std::vector<int64_t>& prompt_ids, const std::vector<SpokenSegment>& segments,
                                 int64_t first_time) const;

 private:
  struct Judgement {
    bool is_wrong = false, is_silence = false;
  };

  GenerateOptions options_at(double temperature, int64_t begin, uint64_t number) const;
  Judgement judge(const GenerateOutput& said, const std::vector<int64_t>& tokens, double temperature,
                  double silence) const;
  double silence_of(const at::Tensor& states, const std::vector<int64_t>& ids, std::size_t prompt) const;
  std::vector<double> times_of(const at::Tensor& states, const std::vector<int64_t>& ids,
                               const std::vector<int64_t>& tokens, int64_t frames) const;

  const BaseModule& module_;
  GenerationConfig config_;
  std::vector<double> temperatures_;
  std::optional<double> compression_ratio_threshold_, logprob_threshold_, no_speech_threshold_;
  bool conditions_ = false, timestamps_ = false;
  // previous_: of the key, else as older files have it.
  std::optional<int64_t> no_timestamps_, previous_by_key_, previous_, max_initial_;
  std::vector<std::pair<int64_t, int64_t>> alignment_heads_;  // empty: no times of tokens
  int64_t filter_width_ = 1;
  RandomKey prng_key_;
  uint64_t windows_ = 0;
};

}  // namespace easydel
