// What each rank of a mesh would store of a model, without memory for the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/base_module.h"

namespace easydel {

struct ShardingPlan {
  struct Row {
    std::string path;
    std::string rule;  // the pattern that matched
    PartitionSpec spec;
    std::vector<int64_t> shape, local_shape;  // of the whole; of what rank 0 stores
    int64_t local_bytes = 0;                  // of rank 0
  };
  Mesh mesh;
  std::vector<Row> rows;
  std::vector<int64_t> rank_bytes;    // of each rank
  std::vector<int64_t> moment_bytes;  // of each rank: what adamw keeps, two moments of a parameter's dtype
  int64_t bytes = 0;                  // of the whole model

  std::string to_string() const;  // a table, and totals
  Json to_json() const;
};

// By the rules, the zero_stage and the mesh of the module's config. ConfigError as shard_model throws it.
ShardingPlan plan_sharding(const BaseModule& module, int64_t devices);

}  // namespace easydel
