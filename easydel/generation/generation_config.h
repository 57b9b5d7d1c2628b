// How tokens are chosen and when to stop: generation_config.json, and what a caller changes of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/config/token_ids.h"
#include "easydel/io/hub/hub.h"

namespace easydel {

struct BaseConfig;
class FieldVisitor;

// When beam search ends: by a heuristic, once there are num_beams complete rows, or when no better one is possible.
enum class EarlyStopping { False, True, Never };

struct ExponentialDecay {
  int64_t start = 0;  // new tokens before it sets in
  double factor = 1.0;
  friend bool operator==(const ExponentialDecay&, const ExponentialDecay&) = default;
};

struct SequenceBias {
  std::vector<int64_t> ids;
  double bias = 0.0;
  friend bool operator==(const SequenceBias&, const SequenceBias&) = default;
};

struct StopStrings {
  std::vector<std::string> values;
  friend bool operator==(const StopStrings&, const StopStrings&) = default;
};

// The fields have transformers' names and meaning. One that is not set is taken from the model's own file, and if that
// does not set it either, from with_defaults().
struct GenerationConfig {
  // Length.
  std::optional<int64_t> max_length = {};      // prompt and new tokens
  std::optional<int64_t> max_new_tokens = {};  // wins over max_length; with neither, 20
  std::optional<int64_t> min_length = {};
  std::optional<int64_t> min_new_tokens = {};
  std::optional<EarlyStopping> early_stopping = {};
  std::optional<double> max_time = {};  // seconds; the step that is running when they are over is finished
  std::optional<StopStrings> stop_strings = {};

  // Strategy.
  std::optional<bool> do_sample = {};
  std::optional<int64_t> num_beams = {};
  std::optional<bool> use_cache = {};

  // Scores.
  std::optional<double> temperature = {};  // 0: greedy
  std::optional<int64_t> top_k = {};       // 0: all; when sampling the default is 50, as in transformers
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> top_h = {};
  std::optional<double> typical_p = {};
  std::optional<double> epsilon_cutoff = {};
  std::optional<double> eta_cutoff = {};
  std::optional<double> repetition_penalty = {};
  std::optional<double> encoder_repetition_penalty = {};  // above 1: prefer tokens of the prompt, an encoder's or not
  std::optional<double> presence_penalty = {};   // OpenAI's: subtracted once from every token that was generated,
  std::optional<double> frequency_penalty = {};  // and as often as it was; tokens of the prompt do not count
  std::optional<double> length_penalty = {};
  std::optional<int64_t> no_repeat_ngram_size = {};
  std::optional<int64_t> encoder_no_repeat_ngram_size = {};  // of the prompt
  std::optional<std::vector<std::vector<int64_t>>> bad_words_ids = {};
  std::optional<std::vector<SequenceBias>> sequence_bias = {};
  std::optional<int64_t> forced_bos_token_id = {};
  TokenIds forced_eos_token_id = {};
  std::optional<std::vector<int64_t>> suppress_tokens = {};
  std::optional<std::vector<int64_t>> begin_suppress_tokens = {};
  std::optional<ExponentialDecay> exponential_decay_length_penalty = {};
  std::optional<bool> remove_invalid_values = {};
  std::optional<bool> renormalize_logits = {};

  // Output.
  std::optional<int64_t> num_return_sequences = {};
  std::optional<bool> output_scores = {};
  std::optional<bool> output_logits = {};
  std::optional<bool> output_log_probs = {};  // ours: of each new token, under the model's own distribution

  // Special tokens.
  std::optional<int64_t> pad_token_id = {};
  std::optional<int64_t> bos_token_id = {};
  std::optional<int64_t> decoder_start_token_id = {};  // of an encoder-decoder; absent: bos_token_id
  TokenIds eos_token_id = {};

  Json other = Json::object();  // keys that are not fields; written back unchanged

  // generation_config.json of a directory or of a repository on the hub; without that file, what config.json has of
  // the same keys.
  static GenerationConfig from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static GenerationConfig from_model_config(const BaseConfig& config);
  // `where` is named in errors: the file. ConfigError names the key.
  static GenerationConfig from_dict(const Json& json, const std::string& where = "");

  Json to_dict() const;  // the fields that are set, then the other keys
  std::string to_json_string() const;
  void save_pretrained(const std::filesystem::path& directory) const;  // as generation_config.json

  // A copy in which fields that are not set here have the values of `base`.
  GenerationConfig over(const GenerationConfig& base) const;
  // A copy with some keys changed: the keyword arguments of generate. ConfigError on an unknown key.
  GenerationConfig with(const Json& changes) const;
  GenerationConfig with_defaults() const;  // transformers' own

  // ConfigError names the key and what it may be.
  void validate() const;
  // NotSupportedError on a key for an unsupported generation mode: contrastive, assisted, constrained, …
  void require_supported() const;

  bool samples() const;  // do_sample with a temperature above 0
  int64_t beams() const { return num_beams.value_or(1); }

  friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};

// Key, type and meaning of every field, for help and docs.
void list_fields(GenerationConfig& config, FieldVisitor& v);

}  // namespace easydel
