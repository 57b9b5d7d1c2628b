// ZeRO's layouts of one weight: parameters whole on every rank that has tokens of its own, or split over all of these.
#pragma once

#include "easydel/sharding/weight_sharding.h"

namespace easydel {

// The weight's spec without the data axes (those that carry the batch or the sequence), but for those that ranks
// compute its parts over: what a rank stores is what it computes with.
PartitionSpec whole_over_data(const WeightSharding& weight);

// The weight's spec with every data axis that it does not name, all on one dimension: the first that divides evenly, or
// else the largest. A weight without dimensions stays whole.
PartitionSpec split_over_data(const WeightSharding& weight);
// The weight in that layout; the same one when nothing changes.
std::shared_ptr<const WeightSharding> split_over_data(const std::shared_ptr<const WeightSharding>& weight);

}  // namespace easydel
