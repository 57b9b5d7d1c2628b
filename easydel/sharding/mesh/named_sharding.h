// A spec and the mesh that its axes belong to.
#pragma once

#include "easydel/sharding/mesh/mesh.h"
#include "easydel/sharding/mesh/partition_spec.h"

namespace easydel {

struct NamedSharding {
  Mesh mesh;
  PartitionSpec spec;
  friend bool operator==(const NamedSharding&, const NamedSharding&) = default;
};

}  // namespace easydel
