// Meshes of devices, how tensors are split over them, and the ranks that run on them.
#pragma once

#include "easydel/infra/parallel/sharding_plan.h"
#include "easydel/infra/parallel/weight_specs.h"
#include "easydel/sharding/mesh/mesh.h"
#include "easydel/sharding/mesh/partition_axis.h"
#include "easydel/sharding/mesh/partition_rules.h"
#include "easydel/sharding/mesh/partition_spec.h"
#include "easydel/sharding/world/world.h"
