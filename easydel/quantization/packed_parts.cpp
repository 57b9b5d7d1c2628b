#include "easydel/quantization/packed_parts.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"

namespace easydel::quantization {
namespace {

using Of = PartDim::Of;

// One element for `per` of a dimension. Cuts fall on the same places where they can.
Dim packed_dim(const Dim& dim, int64_t per) {
  if (per == 1) return dim;
  Dim packed(dim.size / per, dim.axis);
  if (dim.axis == LogicalAxis::Empty) return packed;
  bool divides = dim.grain == 1 || dim.grain % per == 0;
  for (const int64_t segment : dim.segments) divides &= segment % per == 0;
  if (!divides || (dim.heads.query > 0 && dim.grain % per != 0)) return {dim.size / per};
  packed.grain = dim.grain % per == 0 ? dim.grain / per : 1;
  packed.segments = dim.segments;
  for (int64_t& segment : packed.segments) segment /= per;
  packed.heads = dim.heads;
  return packed;
}

Intervals divided(const Intervals& intervals, int64_t per) {
  Intervals result;
  for (const Interval& i : intervals) result.push_back({i.begin / per, i.end / per});
  return result;
}

bool divides(const Intervals& intervals, int64_t per) {
  for (const Interval& i : intervals) {
    if (i.begin % per != 0 || i.end % per != 0) return false;
  }
  return true;
}

}  // namespace

PackedParts::PackedParts(std::shared_ptr<const Method> method, std::optional<Dim> experts, Dim out, Dim in)
    : method_(std::move(method)),
      experts_(std::move(experts)),
      out_(std::move(out)),
      in_(std::move(in)),
      parts_(method_->parts(out_.size, in_.size)) {
  for (const Part& part : parts_) {
    std::vector<Dim> dims;
    if (experts_) dims.push_back(*experts_);
    for (const PartDim& dim : part.dims) {
      dims.push_back(dim.of == Of::Neither ? Dim(dim.per) : packed_dim(dim.of == Of::Rows ? out_ : in_, dim.per));
    }
    auto parameter = std::make_shared<Parameter>(std::move(dims), Initializer::zeros());
    parameter->trainable = false;
    parameter->fixed_dtype = part.dtype;
    parameter->to_meta(part.dtype);
    parameters_.push_back(std::move(parameter));
  }
}

at::Tensor PackedParts::checked(const at::Tensor& given) {
  const at::Tensor matrix = given.to(at::kCPU, at::kFloat);
  require<ConfigError>(at::isfinite(matrix.sum()).item<bool>() || at::isfinite(matrix).all().item<bool>(),
                       "[quantize] a weight has values that are not finite.");
  return matrix;
}

std::vector<at::Tensor> PackedParts::shaped(std::vector<at::Tensor> parts) const {
  const std::size_t first = experts_ ? 1 : 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = parts[i].to(parts_[i].dtype).view(at::IntArrayRef(parameters_[i]->shape).slice(first));
  return parts;
}

std::vector<at::Tensor> PackedParts::quantized(const at::Tensor& matrix, const ChannelStatistics* seen) const {
  const at::NoGradGuard no_grad;
  return shaped(method_->quantize(checked(matrix), seen));
}

void PackedParts::place_like(const Parameter& dense, bool transposed) const {
  const auto& sharding = dense.sharding();
  if (!sharding) return;
  const PartitionSpec& spec = sharding->spec();
  const std::size_t first = experts_ ? 1 : 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<SpecDim> dims;
    if (experts_) dims.emplace_back(spec.axes(0));
    for (const PartDim& dim : parts_[i].dims) {
      dims.emplace_back(dim.of == Of::Neither ? AxisNames()
                                              : spec.axes(first + ((dim.of == Of::Rows) == transposed ? 1 : 0)));
    }
    const std::shared_ptr<const Parallel> parallel(sharding, &sharding->parallel());
    parameters_[i]->place(std::make_shared<WeightSharding>(parameters_[i]->dims, PartitionSpec(dims), parallel));
  }
}

void PackedParts::bind(const std::vector<at::Tensor>& whole, at::Device device) const {
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    at::Tensor part = whole[i];
    if (parameter.sharding() && !parameter.sharding()->is_whole()) part = parameter.sharding()->part_of(part);
    parameter.bind(part.to(device).contiguous());
  }
}

const AxisNames& PackedParts::column_axes(const Parallel& parallel) const {
  return experts_ && in_.axis == LogicalAxis::MlpIntermediate ? parallel.expert_inner() : parallel.axes(in_.axis);
}

const PackedParts::Plan& PackedParts::plan() const {
  const std::shared_ptr<const WeightSharding>& codes = parameters_[0]->sharding();
  if (plan_ && plan_->codes == codes) return *plan_;
  auto plan = std::make_shared<Plan>();
  plan->codes = codes;
  const std::shared_ptr<const Parallel> parallel(codes, &codes->parallel());
  std::vector<Dim> dims{out_, in_};
  if (experts_) dims.insert(dims.begin(), *experts_);
  plan->dense = std::make_shared<WeightSharding>(dims, PartitionSpec(), parallel);
  const AxisNames& axes = column_axes(*parallel);
  const int64_t count = parallel->mesh().mesh().size(axes);
  const std::size_t first = experts_ ? 1 : 0;
  for (std::size_t p = 0; p < parts_.size() && count > 1; ++p) {
    for (std::size_t d = 0; d < parts_[p].dims.size(); ++d) {
      const PartDim& dim = parts_[p].dims[d];
      if (dim.of != Of::Columns) continue;
      const Dim& own = parameters_[p]->dims[first + d];
      for (int64_t i = 0; i < count; ++i) {
        const Intervals wanted = in_.part(count, i);
        plan->aligned &=
            own.axis == in_.axis && divides(wanted, dim.per) && own.part(count, i) == divided(wanted, dim.per);
      }
    }
  }
  plan_ = plan;
  return *plan_;
}

LocalShard PackedParts::held() const {
  LocalShard held;
  held.out = out_.size;
  held.in = in_.size;
  if (!is_on_mesh()) {
    held.rows = {{0, out_.size}};
    held.columns = {{0, in_.size}};
    for (const auto& parameter : parameters_) held.parts.push_back(parameter->value());
    return held;
  }
  const Plan& plan = this->plan();
  const Slices& computed = plan.dense->computed();
  const std::size_t first = experts_ ? 1 : 0;
  held.rows = computed[first];
  held.columns = computed[first + 1];
  if (const AxisNames& axes = column_axes(plan.dense->parallel()); !axes.empty())
    held.together = &plan.dense->parallel().group(axes);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Parameter& parameter = *parameters_[p];
    if (plan.aligned) {
      held.parts.push_back(parameter.sharding()->gather(parameter.value(), parameter.value().scalar_type()));
      continue;
    }
    const at::Tensor whole = parameter.whole();
    Slices places;
    if (experts_) places.push_back(computed[0]);
    for (const PartDim& dim : parts_[p].dims) {
      const int64_t size = whole.size(static_cast<int64_t>(places.size()));
      places.push_back(dim.of == Of::Rows ? computed[first] : Intervals{{0, size}});
    }
    held.parts.push_back(take(whole, places));
  }
  if (!plan.aligned) {
    held.cut = held.columns;
    held.columns = {{0, in_.size}};
  }
  return held;
}

}  // namespace easydel::quantization
