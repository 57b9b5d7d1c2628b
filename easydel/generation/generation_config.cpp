#include "easydel/generation/generation_config.h"

#include <algorithm>
#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/generation/generation_config_fields.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/json_keys.h"
#include "easydel/io/gguf/gguf_file.h"

namespace easydel {
namespace {

constexpr std::string_view kFile = "generation_config.json";

std::vector<FieldValue> values_of(const GenerationConfig& config) {
  GenerationConfig copy = config;
  return collect_fields([&](FieldVisitor& v) { list_fields(copy, v); });
}

void read(GenerationConfig& config, const Json& json, const std::string& where) {
  read_fields([&](FieldVisitor& v) { list_fields(config, v); }, json,
              [&](std::string_view key) { return concat("[GenerationConfig] ", where, key); });
}

// Keys of transformers' class that are not fields here. require_supported rejects those for other generation modes.
bool is_generation_key(std::string_view key) {
  static constexpr std::string_view kKeys[] = {"assistant_confidence_threshold",
                                               "assistant_early_exit",
                                               "assistant_ensemble_weight",
                                               "assistant_lookbehind",
                                               "cache_config",
                                               "cache_implementation",
                                               "compile_config",
                                               "constraints",
                                               "disable_compile",
                                               "diversity_penalty",
                                               "dola_layers",
                                               "force_words_ids",
                                               "guidance_scale",
                                               "is_assistant",
                                               "low_memory",
                                               "max_cache_len",
                                               "max_matching_ngram_size",
                                               "num_assistant_tokens",
                                               "num_assistant_tokens_schedule",
                                               "num_beam_groups",
                                               "penalty_alpha",
                                               "prefill_chunk_size",
                                               "prompt_lookup_num_tokens",
                                               "return_dict_in_generate",
                                               "speculation_type",
                                               "target_lookbehind",
                                               "token_healing",
                                               "use_mtp",
                                               "watermarking_config"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace

void list_fields(GenerationConfig& c, FieldVisitor& v) {
  v("max_length", c.max_length, "Maximum number of tokens, including the prompt.");
  v("max_new_tokens", c.max_new_tokens, "Maximum number of new tokens; takes precedence over max_length.");
  v("min_length", c.min_length, "Minimum number of tokens before an end token, including the prompt.");
  v("min_new_tokens", c.min_new_tokens, "Minimum number of new tokens before an end token.");
  v("early_stopping", c.early_stopping,
    "When beam search stops: false (a heuristic), true (enough finished beams), never.");
  v("max_time", c.max_time, "Time limit in seconds.");
  v("stop_strings", c.stop_strings, "Strings that end the generation.");
  v("do_sample", c.do_sample, "Sample tokens instead of always choosing the most likely one.");
  v("num_beams", c.num_beams, "Number of beams; 1: no beam search.");
  v("use_cache", c.use_cache, "Use a KV cache.");
  v("temperature", c.temperature, "Sampling temperature; 0: greedy.");
  v("top_k", c.top_k, "Sample from this many most likely tokens; 0: all.");
  v("top_p", c.top_p, "Sample from the smallest set of most likely tokens with this total probability.");
  v("min_p", c.min_p, "Sample from tokens with at least this fraction of the top token's probability.");
  v("top_h", c.top_h, "Sample from the most likely tokens with this fraction of the entropy.");
  v("typical_p", c.typical_p, "Sample from the most typical tokens with this total probability.");
  v("epsilon_cutoff", c.epsilon_cutoff, "Sample from tokens with at least this probability.");
  v("eta_cutoff", c.eta_cutoff, "Like epsilon_cutoff, but with a lower cutoff for flat distributions.");
  v("repetition_penalty", c.repetition_penalty, "Divides the scores of tokens that have occurred; 1: no penalty.");
  v("encoder_repetition_penalty", c.encoder_repetition_penalty,
    "Multiplies the scores of tokens that occur in the prompt (of an encoder-decoder: the encoder's input); 1: no "
    "penalty.");
  v("presence_penalty", c.presence_penalty, "Subtracted from the scores of tokens that were generated.");
  v("frequency_penalty", c.frequency_penalty, "Subtracted from a token's score for each time it was generated.");
  v("length_penalty", c.length_penalty, "A beam's score is divided by its length to this power.");
  v("no_repeat_ngram_size", c.no_repeat_ngram_size, "N-grams of this size occur only once; 0: no limit.");
  v("encoder_no_repeat_ngram_size", c.encoder_no_repeat_ngram_size,
    "N-grams of this size that occur in the prompt are not generated; 0: no limit.");
  v("bad_words_ids", c.bad_words_ids, "Token sequences that must not occur.");
  v("sequence_bias", c.sequence_bias, "Added to the score of a token that completes a sequence.");
  v("forced_bos_token_id", c.forced_bos_token_id, "The first token after a prompt of one token.");
  v("forced_eos_token_id", c.forced_eos_token_id, "The last token when max_length is reached.");
  v("suppress_tokens", c.suppress_tokens, "Tokens that must not occur.");
  v("begin_suppress_tokens", c.begin_suppress_tokens, "Tokens that must not come first.");
  v("exponential_decay_length_penalty", c.exponential_decay_length_penalty,
    "After this many new tokens, end tokens become more likely by this factor each step.");
  v("remove_invalid_values", c.remove_invalid_values, "Replace NaN and infinite scores.");
  v("renormalize_logits", c.renormalize_logits, "Normalize the final scores to log-probabilities.");
  v("num_return_sequences", c.num_return_sequences, "Number of sequences returned per prompt.");
  v("output_scores", c.output_scores, "Return the processed scores of each step.");
  v("output_logits", c.output_logits, "Return the unprocessed logits of each step.");
  v("output_log_probs", c.output_log_probs, "Return each new token's log-probability.");
  v("pad_token_id", c.pad_token_id, "Padding token for rows that end earlier.");
  v("bos_token_id", c.bos_token_id, "Beginning-of-sequence token; the prompt if none is given.");
  v("decoder_start_token_id", c.decoder_start_token_id, "First token of the decoder of an encoder-decoder.");
  v("eos_token_id", c.eos_token_id, "End-of-sequence tokens.");
}

GenerationConfig GenerationConfig::from_dict(const Json& json, const std::string& where) {
  const std::string prefix = where.empty() ? "" : where + ": ";
  if (!json.is_object()) wrong_type(concat("[GenerationConfig] ", prefix, "a generation config"), "an object", json);
  GenerationConfig config;
  read(config, json, prefix);
  const auto fields = values_of(config);
  for (const auto& [key, value] : json.as_object()) {
    const bool known = std::any_of(fields.begin(), fields.end(), [&](const FieldValue& f) { return f.key == key; });
    if (!known) config.other[key] = value;
  }
  config.validate();
  return config;
}

GenerationConfig GenerationConfig::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  HubOptions options = hub;
  options.files = {"config.json", "generation_config.json*"};  // a pattern: the file may be absent
  const fs::path directory = resolve(name_or_path, options);
  if (find_gguf(directory)) return from_model_config(*AutoConfig::from_pretrained(directory.string()));
  if (fs::exists(directory / kFile, ignored)) {
    const std::string file = (directory / kFile).string();
    return from_dict(Json::parse_file(file), file);
  }
  const fs::path file = directory / "config.json";
  require<IoError>(fs::exists(file, ignored), "[GenerationConfig] ", directory.string(), " must contain a ", kFile,
                   " or a config.json; it has neither.");
  GenerationConfig config = from_dict(Json::parse_file(file.string()), file.string());
  Json others = Json::object();  // the rest of config.json describes the model
  for (const auto& [key, value] : config.other.as_object()) {
    if (is_generation_key(key)) others[key] = value;
  }
  config.other = std::move(others);
  return config;
}

GenerationConfig GenerationConfig::from_model_config(const BaseConfig& model) {
  std::vector<std::string> fields;
  for (const FieldValue& field : values_of({})) fields.push_back(field.key);
  Json given = Json::object();  // as older files have it
  for (const std::string& key : model.custom_arguments()) {
    if (is_generation_key(key) || std::find(fields.begin(), fields.end(), key) != fields.end())
      given[key] = model.get(key);
  }
  // Those that encoder-decoders have as fields of their own.
  for (const char* key : {"decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"}) {
    if (const Json value = model.get(key); !value.is_null()) given[key] = value;
  }
  GenerationConfig config = from_dict(given);
  config.bos_token_id = model.bos_token_id;
  config.eos_token_id = model.eos_token_id;
  config.pad_token_id = model.pad_token_id;
  config.use_cache = model.use_cache;
  return config;
}

Json GenerationConfig::to_dict() const {
  Json json = Json::object();
  for (const FieldValue& field : values_of(*this)) {
    if (!field.value.is_null()) json[field.key] = field.value;
  }
  for (const auto& [key, value] : other.as_object()) json[key] = value;
  return json;
}

std::string GenerationConfig::to_json_string() const { return with_sorted_keys(to_dict()).dump(2) + "\n"; }

void GenerationConfig::save_pretrained(const std::filesystem::path& directory) const {
  validate();
  make_directory(directory);
  write_file_atomically(directory / kFile, to_json_string());
}

GenerationConfig GenerationConfig::over(const GenerationConfig& base) const {
  Json merged = base.to_dict();
  const Json mine = to_dict();
  for (const auto& [key, value] : mine.as_object()) merged[key] = value;
  return from_dict(merged);
}

GenerationConfig GenerationConfig::with(const Json& changes) const {
  GenerationConfig changed = *this;
  std::vector<std::string> known;
  for (const FieldValue& field : values_of(changed)) known.push_back(field.key);
  for (const auto& [key, value] : changes.as_object()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    GenerationConfig asked;
    asked.other[key] = value;
    asked.require_supported();
    const std::string near = nearest_name(key, known);
    fail<ConfigError>("[GenerationConfig] unknown key \"", key, "\".",
                      near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  read(changed, changes, "");
  changed.validate();
  return changed;
}

GenerationConfig GenerationConfig::with_defaults() const {
  return over({.max_length = 20,
               .min_length = 0,
               .early_stopping = EarlyStopping::False,
               .do_sample = false,
               .num_beams = 1,
               .use_cache = true,
               .temperature = 1.0,
               .top_k = 50,
               .top_p = 1.0,
               .typical_p = 1.0,
               .epsilon_cutoff = 0.0,
               .eta_cutoff = 0.0,
               .repetition_penalty = 1.0,
               .encoder_repetition_penalty = 1.0,
               .presence_penalty = 0.0,
               .frequency_penalty = 0.0,
               .length_penalty = 1.0,
               .no_repeat_ngram_size = 0,
               .encoder_no_repeat_ngram_size = 0,
               .remove_invalid_values = false,
               .renormalize_logits = false,
               .num_return_sequences = 1,
               .output_scores = false,
               .output_logits = false,
               .output_log_probs = false});
}

bool GenerationConfig::samples() const { return do_sample.value_or(false) && temperature.value_or(1.0) > 0.0; }

}  // namespace easydel
