// One weight on a mesh: the part that a rank stores, the part that it computes with, and how to convert between them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "easydel/operations/linear/weight_access.h"
#include "easydel/sharding/mesh/dim.h"
#include "easydel/sharding/parallel.h"

namespace easydel {

using Slices = std::vector<Intervals>;  // for each dimension, the stored intervals

// Storage follows the spec. A dimension whose axes begin with the computation's axes is split at whole grains over
// these, and evenly over the rest, so gathering over the rest gives exactly the part to compute with. With any other
// spec the full weight is gathered first, and the part is sliced out of it.
class WeightSharding : public operations::WeightAccess {
 public:
  // ConfigError when the spec names an axis that the mesh lacks, or more dimensions than there are.
  WeightSharding(std::vector<Dim> dims, PartitionSpec spec, std::shared_ptr<const Parallel> parallel);

  const PartitionSpec& spec() const { return spec_; }
  const Parallel& parallel() const { return *parallel_; }
  const std::shared_ptr<const Parallel>& shared_parallel() const { return parallel_; }
  const std::vector<Dim>& dims() const { return dims_; }
  const AxisNames& compute_axes(std::size_t dim) const { return plans_[dim].compute; }
  Slices stored(int64_t rank) const;
  const Slices& stored() const { return stored_; }
  const Slices& computed() const { return computed_; }
  const std::vector<int64_t>& stored_shape() const { return stored_shape_; }
  std::vector<int64_t> shape() const;  // of the full weight
  bool is_whole() const;               // every rank stores all of it
  bool is_gathered() const { return !gathered_.empty(); }
  int64_t gathered_numel() const;  // upper bound of the gathered elements: the same on every rank

  // The part of a full tensor that this rank stores; a view if possible.
  at::Tensor part_of(const at::Tensor& whole) const;
  // The full weight, on every rank.
  at::Tensor gather_whole(const at::Tensor& part) const;

  // Whether every rank's part is contained in its part in the other layout. Then cut() slices it, as a view if
  // possible, and join() reassembles it from all ranks that share it.
  bool is_part_of(const WeightSharding& other) const;
  at::Tensor cut(const at::Tensor& part_of_other, const WeightSharding& other) const;
  at::Tensor join(const at::Tensor& part, const WeightSharding& other) const;

  // From the stored part to the part to compute with, and the reverse for its gradient: summed over all ranks that have
  // different tokens, sliced to the stored part.
  at::Tensor gather(const at::Tensor& part, at::ScalarType dtype) const override;
  at::Tensor reduce(const at::Tensor& gradient) const override;

 private:
  friend class WeightPrefetcher;
  // A pending gather and its result.
  struct Gathering {
    std::unique_ptr<Pending> pending;
    std::vector<at::Tensor> parts;
    std::vector<Slices> places;  // of each part, in the result
    std::vector<std::vector<int64_t>> shapes;
    std::vector<int64_t> shape;
  };
  Gathering start(const at::Tensor& part, const AxisNames& axes, const Slices& into) const;
  static at::Tensor finish(Gathering gathering);
  at::Tensor gather_over(const at::Tensor& part, const AxisNames& axes, const Slices& into) const;
  at::Tensor sum_shared(const at::Tensor& gradient) const;

  std::vector<Dim> dims_;
  PartitionSpec spec_;
  std::shared_ptr<const Parallel> parallel_;
  struct DimPlan {
    AxisNames spec, compute;
    bool kept = false;  // the spec begins with the axes of the computation
  };
  std::vector<DimPlan> plans_;
  AxisNames gathered_, summed_, all_;
  bool sliced_ = false;
  int64_t shared_dim_ = -1;  // where several ranks have the same key/value heads
  Slices stored_, union_, computed_;
  std::vector<int64_t> stored_shape_;
};

// Calls f(index in each dimension) for every box of the product of these lists.
void for_boxes(const Slices& slices, const std::function<void(const std::vector<Interval>&)>& f);
at::Tensor take(const at::Tensor& from, const Slices& places);                     // a view for one box
void put(const at::Tensor& into, const Slices& places, const at::Tensor& values);  // copies
std::vector<int64_t> shape_of(const Slices& slices);

}  // namespace easydel
