// How a forward pass is parallelized over a mesh: the axes of the batch, the sequence, heads, experts.
#pragma once

#include <memory>

#include "easydel/sharding/mesh/partition_axis.h"
#include "easydel/sharding/world/world.h"

namespace easydel {

class WeightPrefetcher;

// Axes of size one are omitted everywhere, so an empty list means that a dimension is not split.
class Parallel {
 public:
  // Without splits_heads every rank computes all heads. ConfigError when an axis shards two things at once: the batch
  // and heads, say.
  Parallel(std::shared_ptr<const DeviceMesh> mesh, const PartitionAxis& axis, const AxisNames& expert_axes,
           bool splits_heads = true);
  ~Parallel();

  const DeviceMesh& mesh() const { return *mesh_; }
  // What ranks compute with parts of: heads, the MLP's inner dimension, the vocabulary, experts. Key/value heads follow
  // the query heads. The inner dimension of experts is expert_inner().
  const AxisNames& axes(LogicalAxis axis) const;
  const AxisNames& batch() const { return batch_; }
  const AxisNames& sequence() const { return sequence_; }
  const AxisNames& data() const { return data_; }  // axes over which ranks have different tokens: batch and sequence
  const AxisNames& expert_inner() const { return expert_inner_; }

  const Group& group(const AxisNames& axes) const { return mesh_->group(axes); }
  const Group& everyone() const;
  WeightPrefetcher& prefetcher() const { return *prefetcher_; }
  bool is_single() const { return mesh_->mesh().size() == 1; }

 private:
  std::shared_ptr<const DeviceMesh> mesh_;
  std::unique_ptr<WeightPrefetcher> prefetcher_;
  AxisNames batch_, sequence_, data_, heads_, mlp_, vocab_, experts_, expert_inner_;
};

// Set operations on lists of axes; the order is that of the first.
bool contains(const AxisNames& axes, const std::string& axis);
AxisNames with(const AxisNames& a, const AxisNames& b);
AxisNames without(const AxisNames& a, const AxisNames& b);
AxisNames common(const AxisNames& a, const AxisNames& b);

}  // namespace easydel
