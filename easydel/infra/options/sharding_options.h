// How a model is to be split: what loading, a run's file and the builder change of a config's ShardingSettings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {

class FieldVisitor;

// What is empty or null stays as the config has it.
struct ShardingOptions {
  std::vector<int64_t> axis_dims = {};
  std::vector<std::string> axis_names = {};
  std::vector<int64_t> dcn_axis_dims = {};
  std::optional<PartitionAxis> partition_axis = {};
  std::optional<bool> auto_shard_model = {};  // whether the weights are split
  std::optional<int64_t> zero_stage = {};
  std::optional<bool> shard_attention_computation = {};
  std::optional<bool> fsdp_is_ep_bound = {};
  std::optional<bool> sp_is_ep_bound = {};
};

void list_fields(ShardingOptions& options, FieldVisitor& v);
// What is given, under the keys of a config.
Json config_changes(ShardingOptions options);

}  // namespace easydel
