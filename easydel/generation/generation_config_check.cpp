// What a GenerationConfig may hold.
#include <cmath>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/generation/generation_config.h"

namespace easydel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
void require_rule(const std::optional<T>& value, bool holds, std::string_view key, std::string_view rule) {
  require<ConfigError>(!value || holds, "[GenerationConfig] ", key, " must ", rule, "; got ", value.value_or(T()), ".");
}

void require_at_least(const std::optional<int64_t>& value, int64_t least, std::string_view key) {
  require_rule(value, value >= least, key, concat("be at least ", least));
}

void require_finite(const std::optional<double>& value, std::string_view key) {
  require_rule(value, value && std::isfinite(*value), key, "be a finite number");
}

// Bounds are written so that NaN fails.
void require_between(const std::optional<double>& value, double low, double high, std::string_view key,
                     std::string_view rule) {
  require_rule(value, value && *value >= low && *value <= high, key, rule);
}

void require_ids(const std::vector<int64_t>& ids, std::string_view key) {
  for (const int64_t id : ids) {
    require<ConfigError>(id >= 0, "[GenerationConfig] ", key, " must contain token ids, which are not negative; got ",
                         id, ".");
  }
}

bool asks(const Json& value) {  // a key that is there and says something other than "no"
  if (value.is_null()) return false;
  if (value.is_bool()) return value.as_bool();
  if (value.is_number()) return value.as_double() != 0;
  return value.size() > 0 || value.is_string();
}

}  // namespace

void GenerationConfig::validate() const {
  require_at_least(max_length, 1, "max_length");
  require_at_least(max_new_tokens, 1, "max_new_tokens");
  require_at_least(min_length, 0, "min_length");
  require_at_least(min_new_tokens, 0, "min_new_tokens");
  require_between(max_time, 0.0, kInfinity, "max_time", "not be negative");
  if (stop_strings) {
    for (const std::string& text : stop_strings->values) {
      require<ConfigError>(!text.empty(), "[GenerationConfig] stop_strings must not contain empty strings.");
    }
  }
  require_at_least(num_beams, 1, "num_beams");
  require_at_least(num_return_sequences, 1, "num_return_sequences");

  constexpr double kSmallest = std::numeric_limits<double>::min();
  require_between(temperature, 0.0, std::numeric_limits<double>::max(), "temperature",
                  "be a finite number that is not negative");
  require_at_least(top_k, 0, "top_k");
  require_between(top_p, kSmallest, 1.0, "top_p", "lie in (0, 1]");
  require_between(min_p, 0.0, 1.0, "min_p", "lie in [0, 1]");
  require_between(top_h, kSmallest, 1.0, "top_h", "lie in (0, 1]");
  require_between(typical_p, kSmallest, 1.0, "typical_p", "lie in (0, 1]");
  for (const auto& [value, key] : {std::pair(epsilon_cutoff, "epsilon_cutoff"), std::pair(eta_cutoff, "eta_cutoff")}) {
    require_rule(value, value && *value >= 0.0 && *value < 1.0, key, "lie in [0, 1)");
  }
  require_between(repetition_penalty, kSmallest, std::numeric_limits<double>::max(), "repetition_penalty",
                  "be positive");
  require_between(encoder_repetition_penalty, kSmallest, std::numeric_limits<double>::max(),
                  "encoder_repetition_penalty", "be positive");
  require_finite(presence_penalty, "presence_penalty");
  require_finite(frequency_penalty, "frequency_penalty");
  require_finite(length_penalty, "length_penalty");
  require_at_least(no_repeat_ngram_size, 0, "no_repeat_ngram_size");
  require_at_least(encoder_no_repeat_ngram_size, 0, "encoder_no_repeat_ngram_size");
  require_at_least(decoder_start_token_id, 0, "decoder_start_token_id");
  if (bad_words_ids) {
    for (const auto& ids : *bad_words_ids) {
      require<ConfigError>(!ids.empty(), "[GenerationConfig] bad_words_ids must not contain an empty list.");
      require_ids(ids, "bad_words_ids");
    }
  }
  if (sequence_bias) {
    for (const auto& [ids, bias] : *sequence_bias) {
      require<ConfigError>(!ids.empty(), "[GenerationConfig] sequence_bias must not contain an empty list of ids.");
      require_ids(ids, "sequence_bias");
      require<ConfigError>(!std::isnan(bias), "[GenerationConfig] sequence_bias must contain numbers; got NaN.");
    }
  }
  require_at_least(forced_bos_token_id, 0, "forced_bos_token_id");
  require_ids(forced_eos_token_id.values(), "forced_eos_token_id");
  if (suppress_tokens) require_ids(*suppress_tokens, "suppress_tokens");
  if (begin_suppress_tokens) require_ids(*begin_suppress_tokens, "begin_suppress_tokens");
  if (const auto& decay = exponential_decay_length_penalty) {
    require<ConfigError>(std::isfinite(decay->factor) && decay->factor > 0 && decay->start >= 0,
                         "[GenerationConfig] exponential_decay_length_penalty must be a start that is not negative "
                         "and a positive factor; got [",
                         decay->start, ", ", decay->factor, "].");
  }

  // What only goes together.
  if (num_return_sequences.value_or(1) > 1 && beams() == 1) {
    require<ConfigError>(samples(),
                         "[GenerationConfig] num_return_sequences must be 1 without sampling or beam search; got ",
                         *num_return_sequences, ". Set do_sample or num_beams.");
  }
  require<ConfigError>(beams() == 1 || num_return_sequences.value_or(1) <= beams(),
                       "[GenerationConfig] num_return_sequences must not exceed num_beams; got ",
                       num_return_sequences.value_or(1), " and ", beams(), ".");
  if (suppress_tokens) {
    const TokenIds suppressed(*suppress_tokens);
    const auto refuse = [&](const TokenIds& forced, std::string_view key) {
      bool all = !forced.empty();
      for (const int64_t id : forced) all = all && suppressed.contains(id);
      require<ConfigError>(!all, "[GenerationConfig] ", key, " must not all be in suppress_tokens: no token is left.");
    };
    if (forced_bos_token_id) refuse(*forced_bos_token_id, "forced_bos_token_id");
    refuse(forced_eos_token_id, "forced_eos_token_id");
  }
}

void GenerationConfig::require_supported() const {
  // Keys whose neutral value is 1 or 0, and the mode they enable.
  struct Mode {
    std::string_view key, what;
    double neutral;
  };
  static constexpr Mode kModes[] = {{"penalty_alpha", "contrastive search", 0},
                                    {"dola_layers", "DoLa", 0},
                                    {"num_beam_groups", "group beam search", 1},
                                    {"diversity_penalty", "group beam search", 0},
                                    {"constraints", "constrained beam search", 0},
                                    {"force_words_ids", "constrained beam search", 0},
                                    {"prompt_lookup_num_tokens", "assisted generation", 0},
                                    {"assistant_early_exit", "assisted generation", 0},
                                    {"assistant_ensemble_weight", "assisted generation", 0},
                                    {"is_assistant", "assisted generation", 0},
                                    {"speculation_type", "assisted generation", 0},
                                    {"use_mtp", "multi-token prediction", 0},
                                    {"guidance_scale", "classifier-free guidance", 1},
                                    {"watermarking_config", "watermarking", 0},
                                    {"token_healing", "token healing", 0},
                                    {"low_memory", "sequential beam search", 0},
                                    {"output_attentions", "attentions of every step", 0},
                                    {"output_hidden_states", "hidden states of every step", 0}};
  for (const Mode& mode : kModes) {
    const Json* value = other.find(mode.key);
    if (!value || !asks(*value) || (value->is_number() && value->as_double() == mode.neutral)) continue;
    fail<NotSupportedError>("[GenerationConfig] ", mode.key, " enables ", mode.what, ", which is not supported; got ",
                            value->dump(), ".");
  }
}

}  // namespace easydel
