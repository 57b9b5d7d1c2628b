#include "easydel/models/mamba2/config.h"

#include <cmath>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

Mamba2Config::Mamba2Config() {
  vocab_size = 32768;
  hidden_size = 4096;
  head_dim = 64;
  state_size = 128;
  num_hidden_layers = 64;
  pad_token_id = 1;
  bos_token_id = 0;
  eos_token_id = 2;
}

void Mamba2Config::fields(FieldVisitor& v) {
  state_space_fields(v);
  v("num_heads", num_heads, "Heads of channels, each with one decay.");
  v("head_dim", head_dim, "Channels of a head.");
  v("n_groups", n_groups, "Groups of heads that share B and C.");
  v("time_step_limit", time_step_limit, "Minimum and maximum time step.");
  v("chunk_size", chunk_size, "Tokens that are computed together.");
}

void Mamba2Config::validate() const {
  StateSpaceConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("num_heads", num_heads, 1);
  check.at_least("head_dim", head_dim, 1);
  check.at_least("n_groups", n_groups, 1);
  check.at_least("chunk_size", chunk_size, 1);
  check.multiple("num_heads", num_heads, "n_groups", n_groups);
  require<ConfigError>(inner_size() == num_heads * head_dim.value_or(0), "[", class_name(),
                       "] hidden_size * expand must be num_heads * head_dim; got ", inner_size(), " and ",
                       num_heads * head_dim.value_or(0), ".");
  check_time_step_limit(*this, time_step_limit);
}

void Mamba2Config::check_time_step_limit(const BaseConfig& config, const Json& limit) {
  require<ConfigError>(limit.is_array() && limit.size() == 2 && time_step_bound(limit, 0) >= 0 &&
                           time_step_bound(limit, 0) <= time_step_bound(limit, 1),
                       "[", config.class_name(), "] time_step_limit must be two numbers, least and most; got ",
                       limit.dump(), ".");
}

double Mamba2Config::time_step_bound(const Json& limit, std::size_t index) {
  const Json& bound = limit.at(index);
  if (bound.is_number()) return bound.as_double();
  const Json* written = bound.find("__float__");
  return written && *written == Json("Infinity") ? INFINITY : -1;
}

PartitionRules Mamba2Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"mixer\\.(in|out)_proj\\.weight$", specs.shard_second()},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {".*", {}},
  };
}

}  // namespace easydel
