#include "easydel/sharding/weight_sharding.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/weight_prefetcher.h"

namespace easydel {
namespace {

Slices locate(const Slices& wanted, const Slices& held) {
  Slices places;
  for (std::size_t d = 0; d < wanted.size(); ++d) places.push_back(easydel::locate(wanted[d], held[d]));
  return places;
}

Slices whole_of(const std::vector<Dim>& dims) {
  Slices whole;
  for (const Dim& dim : dims) whole.push_back({{0, dim.size}});
  return whole;
}

int64_t numel_of(const Slices& slices) {
  int64_t product = 1;
  for (const Intervals& intervals : slices) product *= total_size(intervals);
  return product;
}

at::Tensor box_of(at::Tensor tensor, const std::vector<Interval>& box) {
  for (std::size_t d = 0; d < box.size(); ++d) {
    tensor = tensor.narrow(static_cast<int64_t>(d), box[d].begin, box[d].size());
  }
  return tensor;
}

bool is_one_box(const Slices& slices) {
  return std::all_of(slices.begin(), slices.end(), [](const Intervals& i) { return i.size() == 1; });
}

// The parts as one tensor, if they are consecutive in memory and only the first dimension is split.
at::Tensor joined(const std::vector<at::Tensor>& parts, const std::vector<Slices>& places,
                  const std::vector<int64_t>& shape) {
  int64_t rows = 0;
  for (const Slices& place : places) {
    for (std::size_t d = 1; d < place.size(); ++d) {
      if (place[d] != Intervals{{0, shape[d]}}) return {};
    }
    if (place.empty() || place[0].size() > 1) return {};
    if (place[0].empty()) continue;
    if (place[0][0].begin != rows) return {};
    rows = place[0][0].end;
  }
  if (shape.empty() || rows != shape[0]) return {};
  int64_t offset = parts[0].storage_offset();
  for (const at::Tensor& part : parts) {
    if (!part.is_alias_of(parts[0]) || part.storage_offset() != offset) return {};
    offset += part.numel();
  }
  return parts[0].as_strided(shape, c10::contiguous_strides(shape), parts[0].storage_offset());
}

}  // namespace

void for_boxes(const Slices& slices, const std::function<void(const std::vector<Interval>&)>& f) {
  std::vector<Interval> box(slices.size());
  const std::function<void(std::size_t)> walk = [&](std::size_t d) {
    if (d == slices.size()) return f(box);
    for (const Interval& i : slices[d]) {
      box[d] = i;
      walk(d + 1);
    }
  };
  walk(0);
}

std::vector<int64_t> shape_of(const Slices& slices) {
  std::vector<int64_t> shape;
  for (const Intervals& intervals : slices) shape.push_back(total_size(intervals));
  return shape;
}

at::Tensor take(const at::Tensor& from, const Slices& places) {
  at::Tensor taken = from;
  for (std::size_t d = 0; d < places.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (places[d].size() == 1) {
      taken = taken.narrow(dim, places[d][0].begin, places[d][0].size());
    } else if (places[d].empty()) {
      taken = taken.narrow(dim, 0, 0);
    } else {
      std::vector<at::Tensor> pieces;
      for (const Interval& i : places[d]) pieces.push_back(taken.narrow(dim, i.begin, i.size()));
      taken = at::cat(pieces, dim);
    }
  }
  return taken;
}

void put(const at::Tensor& into, const Slices& places, const at::Tensor& values) {
  if (is_one_box(places)) {
    std::vector<Interval> box;
    for (const Intervals& i : places) box.push_back(i[0]);
    box_of(into, box).copy_(values);
    return;
  }
  // Where each interval of a dimension begins in `values`.
  Slices from(places.size());
  for (std::size_t d = 0; d < places.size(); ++d) {
    int64_t at = 0;
    for (const Interval& i : places[d]) {
      from[d].push_back({at, at + i.size()});
      at += i.size();
    }
  }
  std::vector<std::vector<Interval>> sources;
  for_boxes(from, [&](const std::vector<Interval>& box) { sources.push_back(box); });
  std::size_t next = 0;
  for_boxes(places,
            [&](const std::vector<Interval>& box) { box_of(into, box).copy_(box_of(values, sources[next++])); });
}

WeightSharding::WeightSharding(std::vector<Dim> dims, PartitionSpec spec, std::shared_ptr<const Parallel> parallel)
    : dims_(std::move(dims)), spec_(std::move(spec)), parallel_(std::move(parallel)) {
  const Mesh& mesh = parallel_->mesh().mesh();
  require<ConfigError>(spec_.size() <= dims_.size(), "[PartitionSpec] ", spec_.to_string(), " has ", spec_.size(),
                       " dimensions, but the tensor has ", dims_.size(), ".");
  AxisNames computed;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    DimPlan plan;
    for (const std::string& axis : spec_.axes(d)) {
      require<ConfigError>(mesh.contains(axis), "[PartitionSpec] ", spec_.to_string(), " names the axis \"", axis,
                           "\", which the mesh (", mesh.to_string(), ") does not have.");
      if (mesh.size(axis) > 1) plan.spec.push_back(axis);
    }
    const bool inner_of_experts = dims_[0].axis == LogicalAxis::Expert && d > 0;
    plan.compute =
        without(inner_of_experts && dims_[d].axis == LogicalAxis::MlpIntermediate ? parallel_->expert_inner()
                                                                                  : parallel_->axes(dims_[d].axis),
                computed);
    computed = with(computed, plan.compute);
    plan.kept = !plan.compute.empty() && plan.spec.size() >= plan.compute.size() &&
                std::equal(plan.compute.begin(), plan.compute.end(), plan.spec.begin());
    all_ = with(all_, plan.spec);
    if (plan.kept) {
      gathered_ = with(
          gathered_, AxisNames(plan.spec.begin() + static_cast<std::ptrdiff_t>(plan.compute.size()), plan.spec.end()));
      if (dims_[d].has_shared_parts(mesh.size(plan.compute))) shared_dim_ = static_cast<int64_t>(d);
    } else {
      gathered_ = with(gathered_, plan.spec);
      sliced_ |= !plan.compute.empty();
    }
    plans_.push_back(std::move(plan));
  }
  // Each rank's gradient is of its own tokens; if it uses only a part of the full weight, of that part alone.
  AxisNames kept, cut;
  for (const DimPlan& plan : plans_) (plan.kept ? kept : cut) = with(plan.kept ? kept : cut, plan.compute);
  summed_ = with(without(parallel_->data(), kept), cut);

  const int64_t rank = parallel_->mesh().rank();
  stored_ = stored(rank);
  stored_shape_ = shape_of(stored_);
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const DimPlan& plan = plans_[d];
    const int64_t parts = mesh.size(plan.compute);
    Intervals part =
        parts > 1 ? dims_[d].part(parts, mesh.index_in_group(plan.compute, rank)) : Intervals{{0, dims_[d].size}};
    union_.push_back(plan.kept || plan.compute.empty() ? part : Intervals{{0, dims_[d].size}});
    computed_.push_back(std::move(part));
  }
}

Slices WeightSharding::stored(int64_t rank) const {
  const Mesh& mesh = parallel_->mesh().mesh();
  Slices slices;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const DimPlan& plan = plans_[d];
    Intervals held{{0, dims_[d].size}};
    AxisNames rest = plan.spec;
    if (plan.kept) {
      held = dims_[d].part(mesh.size(plan.compute), mesh.index_in_group(plan.compute, rank));
      rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(plan.compute.size()));
    }
    if (!rest.empty()) {
      held = sub_intervals(held, even_part(total_size(held), mesh.size(rest), mesh.index_in_group(rest, rank)));
    }
    slices.push_back(std::move(held));
  }
  return slices;
}

std::vector<int64_t> WeightSharding::shape() const {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims_) shape.push_back(dim.size);
  return shape;
}

bool WeightSharding::is_whole() const { return all_.empty(); }

at::Tensor WeightSharding::part_of(const at::Tensor& whole) const { return take(whole, stored_); }

WeightSharding::Gathering WeightSharding::start(const at::Tensor& part, const AxisNames& axes,
                                                const Slices& into) const {
  Gathering g;
  std::vector<int64_t> counts;
  for (const int64_t rank : parallel_->mesh().mesh().group(axes, parallel_->mesh().rank())) {
    const Slices held = stored(rank);
    g.shapes.push_back(shape_of(held));
    g.places.push_back(locate(held, into));
    counts.push_back(numel_of(held));
  }
  g.shape = shape_of(into);
  g.pending = parallel_->group(axes).start_all_gather(part.contiguous(), counts, g.parts);
  return g;
}

at::Tensor WeightSharding::finish(Gathering g) {
  g.pending->wait();
  if (at::Tensor whole = joined(g.parts, g.places, g.shape); whole.defined()) return whole;
  at::Tensor out = at::empty(g.shape, g.parts[0].options().requires_grad(false));
  for (std::size_t r = 0; r < g.parts.size(); ++r) put(out, g.places[r], g.parts[r].view(g.shapes[r]));
  return out;
}

at::Tensor WeightSharding::gather_over(const at::Tensor& part, const AxisNames& axes, const Slices& into) const {
  return axes.empty() ? part : finish(start(part, axes, into));
}

int64_t WeightSharding::gathered_numel() const {
  int64_t product = 1;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const int64_t parts = plans_[d].kept ? parallel_->mesh().size(plans_[d].compute) : 1;
    product *= (dims_[d].size + parts - 1) / parts;
  }
  return product;
}

at::Tensor WeightSharding::gather_whole(const at::Tensor& part) const {
  const at::NoGradGuard no_grad;
  return gather_over(part.detach(), all_, whole_of(dims_));
}

bool WeightSharding::is_part_of(const WeightSharding& other) const {
  if (dims_ != other.dims_ || parallel_->mesh().mesh() != other.parallel_->mesh().mesh()) return false;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const DimPlan &mine = plans_[d], &theirs = other.plans_[d];
    // Splits nest, as long as both begin at whole grains or both do not.
    if (!theirs.spec.empty() && (mine.kept != theirs.kept || mine.spec.size() < theirs.spec.size() ||
                                 !std::equal(theirs.spec.begin(), theirs.spec.end(), mine.spec.begin()))) {
      return false;
    }
  }
  return true;
}

at::Tensor WeightSharding::cut(const at::Tensor& part_of_other, const WeightSharding& other) const {
  return take(part_of_other, locate(stored_, other.stored_));
}

at::Tensor WeightSharding::join(const at::Tensor& part, const WeightSharding& other) const {
  const at::NoGradGuard no_grad;
  return gather_over(part.detach(), without(all_, other.all_), other.stored_);
}

at::Tensor WeightSharding::gather(const at::Tensor& part, at::ScalarType dtype) const {
  const at::NoGradGuard no_grad;
  const at::Tensor gathered =
      is_gathered() ? parallel_->prefetcher().gather(*this, part, dtype) : part.detach().to(dtype);
  return sliced_ ? take(gathered, locate(computed_, union_)).contiguous() : gathered;
}

// Key/value heads shared by several ranks: each has the gradient from its own queries.
at::Tensor WeightSharding::sum_shared(const at::Tensor& gradient) const {
  const Dim& dim = dims_[static_cast<std::size_t>(shared_dim_)];
  const DimPlan& plan = plans_[static_cast<std::size_t>(shared_dim_)];
  const int64_t first = dim.axis == LogicalAxis::KvHead ? 0 : dim.segments[0];
  std::vector<int64_t> shape = gradient.sizes().vec();
  shape[static_cast<std::size_t>(shared_dim_)] = dim.size - first;
  const at::Tensor sum = at::zeros(shape, gradient.options());
  const Intervals& held = union_[static_cast<std::size_t>(shared_dim_)];
  at::Tensor out = gradient.clone(at::MemoryFormat::Contiguous);
  const auto for_shared = [&](const std::function<void(const at::Tensor& mine, const at::Tensor& all)>& f) {
    int64_t at = 0;
    for (const Interval& i : held) {
      if (i.begin >= first)
        f(out.narrow(shared_dim_, at, i.size()), sum.narrow(shared_dim_, i.begin - first, i.size()));
      at += i.size();
    }
  };
  for_shared([](const at::Tensor& mine, const at::Tensor& all) { all.copy_(mine); });
  parallel_->group(plan.compute).all_reduce(sum);
  for_shared([](const at::Tensor& mine, const at::Tensor& all) { mine.copy_(all); });
  return out;
}

at::Tensor WeightSharding::reduce(const at::Tensor& gradient) const {
  const at::NoGradGuard no_grad;
  at::Tensor d = gradient;
  if (sliced_) {
    d = at::zeros(shape_of(union_), gradient.options());
    put(d, locate(computed_, union_), gradient);
  }
  if (shared_dim_ >= 0) d = sum_shared(d);

  const AxisNames scattered = common(gathered_, summed_);
  if (scattered.empty()) {
    d = take(d, locate(stored_, union_)).contiguous();
  } else {
    std::vector<at::Tensor> parts;
    for (const int64_t rank : parallel_->mesh().mesh().group(scattered, parallel_->mesh().rank())) {
      parts.push_back(take(d, locate(stored(rank), union_)).contiguous());
    }
    d = parallel_->group(scattered).reduce_scatter(parts).view(stored_shape_);
  }
  const AxisNames repeated = without(summed_, gathered_);
  if (!repeated.empty()) {
    // The input may be memory owned by the caller.
    if (d.is_alias_of(gradient)) d = d.clone(at::MemoryFormat::Contiguous);
    parallel_->group(repeated).all_reduce(d);
  }
  return d;
}

}  // namespace easydel
