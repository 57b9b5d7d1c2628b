#include "easydel/infra/config/config_check.h"

#include <algorithm>
#include <cmath>

#include "easydel/core/text/quoted.h"
#include "easydel/operations/activation.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/checkpoint.h"

namespace easydel {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kLimit = int64_t{1} << 31;  // the product of two sizes still fits into 64 bits

}  // namespace

void ConfigCheck::at_least(const char* key, std::optional<int64_t> value, int64_t least) const {
  require<ConfigError>(value.value_or(least) >= least, where_, key, " must be at least ", least, "; got ",
                       value.value_or(least), ".");
  require<ConfigError>(value.value_or(least) < kLimit, where_, key, " must be below 2^31; got ", value.value_or(least),
                       ".");
}

void ConfigCheck::layers() const {
  at_least("num_hidden_layers", config_.num_hidden_layers, 0);
  require<ConfigError>(config_.num_hidden_layers <= kMaxLayers, where_, "num_hidden_layers must be at most ",
                       kMaxLayers, "; got ", config_.num_hidden_layers, ".");
}

void ConfigCheck::above_zero(const char* key, double value) const {
  require<ConfigError>(value > 0 && std::isfinite(value), where_, key, " must be above 0 and finite; got ", value, ".");
}

void ConfigCheck::between_zero_and_one(const char* key, double value) const {
  require<ConfigError>(value >= 0 && value <= 1, where_, key, " must be at least 0 and at most 1; got ", value, ".");
}

void ConfigCheck::multiple(const char* key, int64_t value, const char* of_key, int64_t of) const {
  require<ConfigError>(value % of == 0, where_, key, " must be a multiple of ", of_key, "; got ", value, " and ", of,
                       ".");
}

void ConfigCheck::one_of(const char* key, const std::string& value, const std::vector<std::string>& known) const {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string list;
  for (const std::string& name : known) {
    if (!name.empty()) list += (list.empty() ? "" : ", ") + name;
  }
  const std::string nearest = nearest_name(value, known);
  fail<ConfigError>(where_, key, " must be one of ", list, "; got ", quoted(value), ".",
                    nearest.empty() ? "" : concat(" Did you mean \"", nearest, "\"?"));
}

void ConfigCheck::top_k(std::optional<int64_t> value, const char* experts_key, int64_t experts) const {
  require<ConfigError>(value.value_or(1) >= 1 && value.value_or(1) <= experts, where_,
                       "num_experts_per_tok must be at least 1 and at most ", experts_key, "; got ", value.value_or(1),
                       " and ", experts, ".");
}

void ConfigCheck::groups(int64_t groups, int64_t top, const char* experts_key, int64_t experts, int64_t top_k) const {
  at_least("n_group", groups, 1);
  multiple(experts_key, experts, "n_group", groups);
  require<ConfigError>(top >= 1 && top <= groups, where_, "topk_group must be at least 1 and at most n_group; got ",
                       top, " and ", groups, ".");
  require<ConfigError>(top_k <= top * (experts / groups), where_, "num_experts_per_tok must be at most the ",
                       top * (experts / groups), " experts of topk_group groups; got ", top_k, ".");
}

void ConfigCheck::activation(const char* key, const std::string& name) const {
  one_of(key, name, easydel::operations::activation_names());
}

void ConfigCheck::operations() const {
  const auto mechanism = [&](const char* key, const std::string& name) {
    if (!easydel::operations::attention_stand_in(name)) one_of(key, name, easydel::operations::attention_names());
  };
  mechanism("attn_mechanism", config_.attention.mechanism);
  if (config_.attention.decode_mechanism) mechanism("decode_attn_mechanism", *config_.attention.decode_mechanism);
  one_of("gradient_checkpointing", config_.memory.gradient_checkpointing,
         easydel::operations::checkpoint_policy_names());
  easydel::operations::CheckpointPolicy(config_.memory.gradient_checkpointing,
                                        config_.memory.gradient_checkpointing_targets);  // asks for missing targets
}

void ConfigCheck::rope() const { check_rope(config_.rope, where_, config_.head_size()); }

void ConfigCheck::causal(const char* key, std::optional<bool> both_ways) const {
  require<NotSupportedError>(!both_ways.value_or(false), where_, key,
                             " must be false or null; got true. Only causal attention is supported.");
}

void ConfigCheck::decoder(bool whole_heads) const {
  const BaseConfig& c = config_;
  at_least("vocab_size", c.vocab_size, 1);
  at_least("hidden_size", c.hidden_size, 1);
  at_least("intermediate_size", c.intermediate_size, 1);
  layers();
  at_least("num_attention_heads", c.num_attention_heads, 1);
  at_least("num_key_value_heads", c.num_key_value_heads, 1);
  at_least("head_dim", c.head_dim, 1);
  at_least("max_position_embeddings", c.max_position_embeddings, 1);
  multiple("num_attention_heads", c.num_attention_heads, "num_key_value_heads", c.key_value_heads());
  if (!c.head_dim && whole_heads) multiple("hidden_size", c.hidden_size, "num_attention_heads", c.num_attention_heads);
  between_zero_and_one("initializer_range", c.initializer_range);
  const auto width = static_cast<double>(c.num_attention_heads) * static_cast<double>(c.head_size());
  const double layer = 4 * width + 3 * static_cast<double>(c.intermediate_size);
  const double rows = static_cast<double>(c.num_hidden_layers) * layer + 2 * static_cast<double>(c.vocab_size);
  constexpr double kMax = 0x1p56;  // so that their bytes can be counted in 64 bits
  require<ConfigError>(rows * static_cast<double>(c.hidden_size) < kMax, where_,
                       "the sizes must make fewer than 2^56 parameters; got about ",
                       rows * static_cast<double>(c.hidden_size), ".");
}

}  // namespace easydel
