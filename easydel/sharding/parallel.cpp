#include "easydel/sharding/parallel.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/weight_prefetcher.h"

namespace easydel {
namespace {

AxisNames larger_than_one(const Mesh& mesh, AxisNames axes) {
  std::erase_if(axes, [&](const std::string& axis) { return mesh.size(axis) == 1; });
  return axes;
}

void require_apart(const AxisNames& a, const char* a_name, const AxisNames& b, const char* b_name) {
  const AxisNames both = common(a, b);
  require<ConfigError>(both.empty(), "[PartitionAxis] an axis cannot shard ", a_name, " and also ", b_name, "; got \"",
                       both.empty() ? "" : both.front(), "\" for both.");
}

}  // namespace

bool contains(const AxisNames& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

AxisNames with(const AxisNames& a, const AxisNames& b) {
  AxisNames all = a;
  for (const std::string& axis : b) {
    if (!contains(all, axis)) all.push_back(axis);
  }
  return all;
}

AxisNames without(const AxisNames& a, const AxisNames& b) {
  AxisNames left;
  std::copy_if(a.begin(), a.end(), std::back_inserter(left), [&](const auto& axis) { return !contains(b, axis); });
  return left;
}

AxisNames common(const AxisNames& a, const AxisNames& b) {
  AxisNames both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both), [&](const auto& axis) { return contains(b, axis); });
  return both;
}

Parallel::Parallel(std::shared_ptr<const DeviceMesh> mesh, const PartitionAxis& axis, const AxisNames& expert_axes,
                   bool splits_heads)
    : mesh_(std::move(mesh)), prefetcher_(std::make_unique<WeightPrefetcher>()) {
  const auto resolve = [&](LogicalAxis logical) { return larger_than_one(mesh_->mesh(), axis.resolve_axis(logical)); };
  batch_ = resolve(LogicalAxis::Batch);
  sequence_ = resolve(LogicalAxis::Length);
  data_ = with(batch_, sequence_);
  if (splits_heads) heads_ = resolve(LogicalAxis::Head);
  mlp_ = resolve(LogicalAxis::MlpIntermediate);
  vocab_ = resolve(LogicalAxis::Vocab);
  experts_ = larger_than_one(mesh_->mesh(), expert_axes);
  expert_inner_ = without(mlp_, experts_);
  require_apart(batch_, "the batch", sequence_, "the sequence");
  require_apart(data_, "the batch or the sequence", heads_, "heads");
  require_apart(data_, "the batch or the sequence", mlp_, "the MLP's inner dimension");
  require_apart(data_, "the batch or the sequence", vocab_, "the vocabulary");
}

Parallel::~Parallel() = default;

const Group& Parallel::everyone() const {
  AxisNames all;
  for (const MeshAxis& axis : mesh_->mesh().axes()) all.push_back(axis.name);
  return mesh_->group(all);
}

const AxisNames& Parallel::axes(LogicalAxis axis) const {
  static const AxisNames none;
  switch (axis) {
    case LogicalAxis::Head:
    case LogicalAxis::KvHead: return heads_;
    case LogicalAxis::MlpIntermediate: return mlp_;
    case LogicalAxis::Vocab: return vocab_;
    case LogicalAxis::Expert: return experts_;
    default: return none;
  }
}

}  // namespace easydel
