#include "easydel/serve/engine/generation_params.h"

#include "easydel/generation/generate.h"
#include "easydel/infra/base_module.h"

namespace easydel::serve {

SamplingParams to_sampling_params(const GenerationConfig& given) {
  const GenerationConfig config = given.with_defaults();
  SamplingParams sampling;
  sampling.temperature = config.samples() ? *config.temperature : 0.0;
  sampling.top_k = *config.top_k;
  sampling.top_p = *config.top_p;
  sampling.min_p = config.min_p.value_or(0.0);
  sampling.typical_p = *config.typical_p;
  sampling.repetition_penalty = *config.repetition_penalty;
  sampling.presence_penalty = *config.presence_penalty;
  sampling.frequency_penalty = *config.frequency_penalty;
  sampling.max_tokens = config.max_new_tokens;
  sampling.min_tokens = config.min_new_tokens.value_or(0);
  if (config.stop_strings) {
    sampling.stop = config.stop_strings->values;
    sampling.include_stop_str_in_output = true;  // as generate has it
  }
  // Its own end tokens, which need not be the model's.
  for (const int64_t id : config.eos_token_id) sampling.stop_token_ids.push_back(static_cast<int32_t>(id));
  sampling.ignore_eos = !sampling.stop_token_ids.empty();
  return sampling;
}

std::optional<std::string> unsupported_key(const GenerationConfig& config) {
  const auto is_true = [](const std::optional<bool>& value) { return value.value_or(false); };
  if (config.beams() > 1) return "num_beams";
  if (config.num_return_sequences.value_or(1) > 1) return "num_return_sequences";
  if (!config.use_cache.value_or(true)) return "use_cache";
  if (config.min_length.value_or(0) > 0) return "min_length";
  if (config.max_time) return "max_time";
  if (config.top_h) return "top_h";
  if (config.epsilon_cutoff.value_or(0) != 0) return "epsilon_cutoff";
  if (config.eta_cutoff.value_or(0) != 0) return "eta_cutoff";
  if (config.no_repeat_ngram_size.value_or(0) > 0) return "no_repeat_ngram_size";
  if (config.encoder_no_repeat_ngram_size.value_or(0) > 0) return "encoder_no_repeat_ngram_size";
  if (config.encoder_repetition_penalty.value_or(1) != 1) return "encoder_repetition_penalty";
  if (config.bad_words_ids && !config.bad_words_ids->empty()) return "bad_words_ids";
  if (config.sequence_bias && !config.sequence_bias->empty()) return "sequence_bias";
  if (config.forced_bos_token_id) return "forced_bos_token_id";
  if (config.forced_eos_token_id.begin() != config.forced_eos_token_id.end()) return "forced_eos_token_id";
  if (config.suppress_tokens && !config.suppress_tokens->empty()) return "suppress_tokens";
  if (config.begin_suppress_tokens && !config.begin_suppress_tokens->empty()) return "begin_suppress_tokens";
  if (config.exponential_decay_length_penalty) return "exponential_decay_length_penalty";
  if (is_true(config.remove_invalid_values)) return "remove_invalid_values";
  if (is_true(config.renormalize_logits)) return "renormalize_logits";
  if (is_true(config.output_scores)) return "output_scores";
  if (is_true(config.output_logits)) return "output_logits";
  if (is_true(config.output_log_probs)) return "output_log_probs";
  // Penalties that the engine does not take.
  if (config.presence_penalty.value_or(0) < -2 || config.presence_penalty.value_or(0) > 2) return "presence_penalty";
  if (config.frequency_penalty.value_or(0) < -2 || config.frequency_penalty.value_or(0) > 2) return "frequency_penalty";
  return std::nullopt;
}

std::vector<int32_t> end_tokens_of(const BaseModule& model) {
  std::vector<int32_t> ends;
  if (!model.can_generate()) return ends;
  for (const int64_t id : generation_config(model).eos_token_id) {
    if (id >= 0 && id < model.config().vocab_size) ends.push_back(static_cast<int32_t>(id));
  }
  return ends;
}

}  // namespace easydel::serve
