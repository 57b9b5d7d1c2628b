// ZeRO's layouts of one weight: replicated over data-parallel ranks, or split over all of them.
#pragma once

#include "easydel/sharding/weight_sharding.h"

namespace easydel {

// The weight's spec without the data axes (those of the batch or the sequence), except those of the computation: a rank
// stores what it computes with.
PartitionSpec whole_over_data(const WeightSharding& weight);

// The weight's spec plus every other data axis, all on one dimension: the first that divides evenly, or else the
// largest. A scalar is not split.
PartitionSpec split_over_data(const WeightSharding& weight);
// The weight in that layout; the same one when nothing changes.
std::shared_ptr<const WeightSharding> split_over_data(const std::shared_ptr<const WeightSharding>& weight);

}  // namespace easydel
