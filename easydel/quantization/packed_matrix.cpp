#include "easydel/quantization/packed_matrix.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/rows.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
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

struct MatrixHolder : torch::CustomClassHolder {
  std::shared_ptr<const PackedMatrix> matrix;
};

// Keeps x's shape alone: backward makes the rows again, a chunk at a time.
struct PackedProduct : torch::autograd::Function<PackedProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::shared_ptr<const PackedMatrix> matrix,
                            std::string_view name) {
    auto holder = c10::make_intrusive<MatrixHolder>();
    holder->matrix = matrix;
    ctx->saved_data["matrix"] = c10::IValue::make_capsule(holder);
    return operations::keep_dot(name, [&] { return matrix->method().multiply(x, matrix->held()); });
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    operations::kernels::require_first_derivative("packed linear");
    const auto holder = c10::static_intrusive_pointer_cast<MatrixHolder>(ctx->saved_data["matrix"].toCapsule());
    at::Tensor d_x;
    if (ctx->needs_input_grad(0)) {
      const Held held = holder->matrix->held();
      d_x = chunked_gradient(grads[0], held.row_count(), held.column_count(), [&](int64_t begin, int64_t end) {
        return holder->matrix->method().matrix(held, begin, end);
      });
    }
    return {d_x, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

PackedMatrix::PackedMatrix(std::shared_ptr<const Method> method, Dim out, Dim in)
    : method_(std::move(method)),
      out_(std::move(out)),
      in_(std::move(in)),
      parts_(method_->parts(out_.size, in_.size)) {
  for (const Part& part : parts_) {
    std::vector<Dim> dims;
    for (const PartDim& dim : part.dims) {
      dims.push_back(dim.of == Of::Neither ? Dim(dim.per) : packed_dim(dim.of == Of::Rows ? out_ : in_, dim.per));
    }
    auto parameter = std::make_shared<Parameter>(std::move(dims), Initializer::zeros());
    parameter->trainable = false;
    parameter->fixed_dtype = part.dtype;
    parameter->to_meta(part.dtype);
    if (!part.in_files) {
      parameter->file_layout = [](const std::string&) { return FileLayout(); };
    } else if (!part.file_shape.empty()) {
      parameter->file_layout = [shape = parameter->shape, in_file = part.file_shape](const std::string& path) {
        return FileLayout{{path, std::vector<int64_t>(shape.size(), 0), shape, in_file}};
      };
    }
    parameters_.push_back(std::move(parameter));
  }
}

void PackedMatrix::put_into(Module& module) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) module.set_parameter(parts_[i].name, parameters_[i]);
}

std::vector<at::Tensor> PackedMatrix::quantized(const at::Tensor& given, const ChannelStatistics* seen) const {
  const at::NoGradGuard no_grad;
  const at::Tensor matrix = given.to(at::kCPU, at::kFloat);
  require<ConfigError>(at::isfinite(matrix.sum()).item<bool>() || at::isfinite(matrix).all().item<bool>(),
                       "[quantize] a weight has values that are not finite.");
  std::vector<at::Tensor> parts = method_->quantize(matrix, seen);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i].to(parts_[i].dtype).view(parameters_[i]->shape);
  return parts;
}

void PackedMatrix::fill(const Parameter& dense, bool transposed, const ChannelStatistics* seen) const {
  const at::NoGradGuard no_grad;
  if (const auto& sharding = dense.sharding()) {
    const PartitionSpec& spec = sharding->spec();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::vector<SpecDim> dims;
      for (const PartDim& dim : parts_[i].dims) {
        dims.emplace_back(dim.of == Of::Neither ? AxisNames() : spec.axes((dim.of == Of::Rows) == transposed ? 1 : 0));
      }
      const std::shared_ptr<const Parallel> parallel(sharding, &sharding->parallel());
      parameters_[i]->place(std::make_shared<WeightSharding>(parameters_[i]->dims, PartitionSpec(dims), parallel));
    }
  }
  if (dense.is_lazy()) return;
  const at::Tensor whole = dense.whole();
  const std::vector<at::Tensor> parts = quantized(transposed ? whole.t() : whole, seen);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    at::Tensor part = parts[i];
    if (parameter.sharding() && !parameter.sharding()->is_whole()) part = parameter.sharding()->part_of(part);
    parameter.bind(part.to(whole.device()).contiguous());
  }
}

const PackedMatrix::Plan& PackedMatrix::plan() const {
  const std::shared_ptr<const WeightSharding>& codes = parameters_[0]->sharding();
  if (plan_ && plan_->codes == codes) return *plan_;
  auto plan = std::make_shared<Plan>();
  plan->codes = codes;
  const std::shared_ptr<const Parallel> parallel(codes, &codes->parallel());
  plan->dense = std::make_shared<WeightSharding>(std::vector<Dim>{out_, in_}, PartitionSpec(), parallel);
  const AxisNames& axes = parallel->axes(in_.axis);
  const int64_t count = parallel->mesh().mesh().size(axes);
  for (std::size_t p = 0; p < parts_.size() && count > 1; ++p) {
    for (std::size_t d = 0; d < parts_[p].dims.size(); ++d) {
      const PartDim& dim = parts_[p].dims[d];
      if (dim.of != Of::Columns) continue;
      const Dim& own = parameters_[p]->dims[d];
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

Held PackedMatrix::held() const {
  Held held;
  held.out = out_.size;
  held.in = in_.size;
  if (!parameters_[0]->sharding()) {
    held.rows = {{0, out_.size}};
    held.columns = {{0, in_.size}};
    for (const auto& parameter : parameters_) held.parts.push_back(parameter->value());
    return held;
  }
  const Plan& plan = this->plan();
  const Slices& computed = plan.dense->computed();
  held.rows = computed[0];
  held.columns = computed[1];
  if (const AxisNames& axes = plan.dense->parallel().axes(in_.axis); !axes.empty())
    held.together = &plan.dense->parallel().group(axes);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Parameter& parameter = *parameters_[p];
    if (plan.aligned) {
      held.parts.push_back(parameter.sharding()->gather(parameter.value(), parameter.value().scalar_type()));
      continue;
    }
    at::Tensor whole = parameter.whole();
    if (parts_[p].dims[0].of == Of::Rows) {
      Slices places{computed[0]};
      if (whole.dim() == 2) places.push_back({{0, whole.size(1)}});
      whole = take(whole, places);
    }
    held.parts.push_back(whole);
  }
  if (!plan.aligned) {
    held.cut = held.columns;
    held.columns = {{0, in_.size}};
  }
  return held;
}

at::Tensor PackedMatrix::multiply(const at::Tensor& x, std::string_view name) const {
  const bool has_gradient = at::GradMode::is_enabled() && x.requires_grad();
  if (has_gradient || operations::inside_checkpoint()) return PackedProduct::apply(x, shared_from_this(), name);
  const Held held = this->held();
  require<ShapeError>(x.dim() >= 1 && x.size(-1) == held.column_count(),
                      "[linear] x's last dimension must be the weight's second; got ", x.sizes(), " and [",
                      held.row_count(), ", ", held.column_count(), "].");
  return method_->multiply(x, held);
}

const operations::PackedCodes* PackedMatrix::codes() const {
  if (parameters_.size() != 2 || parameters_[0]->sharding()) return nullptr;
  const at::Tensor &codes = parameters_[0]->value(), &scales = parameters_[1]->value();
  const std::lock_guard lock(reading_);
  if (!read_.codes.is_same(codes) || !read_.scales.is_same(scales)) read_ = {codes, scales, packed_codes()};
  return read_.packed ? &*read_.packed : nullptr;
}

std::optional<operations::PackedCodes> PackedMatrix::packed_codes() const {
  const at::NoGradGuard no_grad;
  const at::Tensor& codes = parameters_[0]->value();
  if (!codes.is_cpu()) return std::nullopt;
  const MethodSettings settings = method_->settings();
  operations::PackedCodes packed;
  if (settings.method == "8bit")
    packed.format = operations::PackedFormat::kInt8;
  else if (settings.method == "int4")
    packed.format = operations::PackedFormat::kInt4;
  else if (settings.method == "nf4")
    packed.format = operations::PackedFormat::kNf4;
  else
    return std::nullopt;
  packed.codes = codes;
  packed.scales = parameters_[1]->value();
  if (packed.format != operations::PackedFormat::kInt8) {
    packed.codes = packed.codes.view({out_.size, -1});
    packed.scales = packed.scales.view({out_.size, -1});
  }
  return packed;
}

at::Tensor PackedMatrix::dequantize(DType dtype) const {
  const at::NoGradGuard no_grad;
  const Held held = this->held();
  return method_->matrix(held, 0, held.row_count()).to(dtype);
}

at::Tensor PackedMatrix::rows(const at::Tensor& places, DType dtype) const {
  const at::NoGradGuard no_grad;
  Held picked = held();
  const at::Tensor flat = places.reshape({-1}).to(at::kLong);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].dims[0].of == Of::Rows) picked.parts[p] = picked.parts[p].index_select(0, flat);
  }
  picked.row_numbers = flat + first_row();
  std::vector<int64_t> shape = places.sizes().vec();
  shape.push_back(picked.column_count());
  return method_->matrix(picked, 0, flat.size(0)).to(dtype).view(shape);
}

int64_t PackedMatrix::first_row() const {
  if (!parameters_[0]->sharding()) return 0;
  const Intervals& rows = plan().dense->computed()[0];
  return rows.empty() ? 0 : rows[0].begin;
}

int64_t PackedMatrix::row_count() const {
  return parameters_[0]->sharding() ? total_size(plan().dense->computed()[0]) : out_.size;
}

}  // namespace easydel::quantization
