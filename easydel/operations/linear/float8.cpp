#include "easydel/operations/linear/float8.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/float8_casts.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/linear/product.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace easydel::operations {
namespace {

using at::Tensor;
using cuda_fused::Float8Rounding;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct AccessHolder : torch::CustomClassHolder {
  WeightAccessPtr access;
};

// Rows of float8, times `inverse` ([rows, 1], or one number) what they were.
struct Float8Matrix {
  Tensor values, inverse;
};

Float8Rounding rounding(Float8Scales scales, bool is_gradient) {
  const bool tensorwise = scales == Float8Scales::Tensorwise;
  return {tensorwise && is_gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn, !tensorwise};
}

int64_t padded(int64_t size) { return (size + kFloat8Multiple - 1) / kFloat8Multiple * kFloat8Multiple; }

// As the kernels, with torch's operations: scales for the last dimension's elements together, or for all.
Float8Matrix compose(const Tensor& x_in, Float8Scales scales, Float8Rounding rounding) {
  const Tensor x = x_in.to(at::kFloat);
  const double largest = rounding.dtype == at::kFloat8_e5m2 ? 57344.0 : 448.0;
  const Tensor magnitudes = x.numel() == 0                       ? at::zeros({1, 1}, x.options())
                            : scales == Float8Scales::Tensorwise ? x.abs().max()
                                                                 : x.abs().amax(-1, /*keepdim=*/true);
  Tensor scale = at::scalar_tensor(largest, x.options()) / magnitudes.clamp_min(1e-12);
  if (rounding.power_of_two) scale = scale.view(at::kInt).bitwise_and(0x7f800000).view(at::kFloat);
  return {(x * scale).clamp(-largest, largest).to(rounding.dtype), scale.reciprocal()};
}

// What both products of a matrix need to know of it: in rowwise scaling the largest magnitudes of its columns, else of
// all of it. Undefined: not known yet.
struct Rounded {
  Float8Matrix matrix;
  Tensor largest;
};

Tensor in_kernel_layout(const Tensor& x) { return !x.is_cuda() || cuda_fused::can_cast_float8(x) ? x : x.contiguous(); }

// The rows of x [R, W].
Rounded by_rows(const Tensor& x_in, Float8Scales scales, Float8Rounding rounding, bool wants_columns) {
  const Tensor x = in_kernel_layout(x_in);
  if (!cuda_fused::can_cast_float8(x)) return {compose(x, scales, rounding), {}};
  Tensor largest;
  if (scales == Float8Scales::Tensorwise) {
    largest = cuda_fused::float8_largest(x);
    const auto [values, inverse] = cuda_fused::float8_cast(x, largest, rounding);
    return {{values, inverse}, largest};
  }
  const auto [values, inverse] = cuda_fused::float8_rows(x, rounding, wants_columns ? &largest : nullptr);
  return {{values, inverse}, largest};
}

// The columns of x [R, W], as rows that are padded with zeros: [W, R or a little more].
Float8Matrix by_columns(const Tensor& x_in, Float8Scales scales, Float8Rounding rounding, Tensor largest) {
  const Tensor x = in_kernel_layout(x_in);
  const int64_t rows = padded(x.size(0));
  if (!cuda_fused::can_cast_float8(x)) {
    const Float8Matrix matrix = compose(x.t().contiguous(), scales, rounding);
    if (rows == x.size(0) || x.is_cpu()) return matrix;
    const Tensor wide = at::zeros({x.size(1), rows}, matrix.values.options().dtype(at::kByte));
    wide.narrow(1, 0, x.size(0)).copy_(matrix.values.view(at::kByte));
    return {wide.view(rounding.dtype), matrix.inverse};
  }
  if (!largest.defined())
    largest = scales == Float8Scales::Tensorwise ? cuda_fused::float8_largest(x) : at::amax(x.abs(), 0).to(at::kFloat);
  const auto [values, inverse] = cuda_fused::float8_columns(x, largest, rounding, rows);
  return {values, inverse};
}

// a [m, k] times the transposed b [n, k].
Tensor product(const Float8Matrix& a, const Float8Matrix& b, at::ScalarType dtype, bool fast) {
  if (a.values.is_cpu()) {
    const Tensor wide = matrix_product(a.values.to(at::kFloat), b.values.to(at::kFloat).t());
    return wide.mul_(a.inverse).mul_(b.inverse.dim() == 2 ? b.inverse.t() : b.inverse).to(dtype);
  }
  const bool rowwise = a.inverse.dim() == 2;
  // torch's rowwise product writes bfloat16.
  const at::ScalarType written = rowwise ? at::kBFloat16 : dtype;
  return at::_scaled_mm(a.values, b.values.t(), a.inverse, rowwise ? b.inverse.t() : b.inverse, {}, {}, written, fast)
      .to(dtype);
}

// The last input that was rounded on this thread: maps that read the same, such as q, k and v, round it once.
class LastRounded {
 public:
  template <class F>
  const Rounded& of(const Tensor& x, Float8Scales scales, const F& round) {
    const auto held = of_.lock();
    if (held.get() != x.unsafeGetTensorImpl() || version_ != x._version() || scales_ != scales) {
      rounded_ = {};
      rounded_ = round();
      of_ = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(x.getIntrusivePtr());
      version_ = x._version();
      scales_ = scales;
    }
    return rounded_;
  }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> of_{
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
  int64_t version_ = 0;
  Float8Scales scales_ = Float8Scales::Rowwise;
  Rounded rounded_;
};

Tensor as_rows(const Tensor& x) { return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2); }

// A sharded weight is gathered in x's type; one that is here is rounded from the type that it is stored in.
Tensor whole(const Tensor& weight, const Tensor& x, const WeightAccessPtr& access) {
  return access ? access->gather(weight, x.scalar_type()) : weight;
}

struct Float8Linear : torch::autograd::Function<Float8Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, Float8Scales scales,
                        std::string_view name, const WeightAccessPtr& access) {
    auto holder = c10::make_intrusive<AccessHolder>();
    holder->access = access;
    ctx->saved_data["access"] = c10::IValue::make_capsule(holder);
    ctx->saved_data["scales"] = static_cast<int64_t>(scales);
    Tensor x_largest, weight_largest;
    const Tensor y = keep_dot(name, [&] {
      const Tensor used = whole(weight, x, access);
      require<ShapeError>(x.size(-1) == used.size(1), "[linear] x's last dimension must be the weight's second; got ",
                          x.sizes(), " and ", used.sizes(), ".");
      require<ShapeError>(used.size(0) % kFloat8Multiple == 0 && used.size(1) % kFloat8Multiple == 0,
                          "[float8] both sizes of a weight must be multiples of ", kFloat8Multiple, "; got ",
                          used.sizes(), ".");
      const Float8Rounding rounds = rounding(scales, /*is_gradient=*/false);
      thread_local LastRounded last;
      const Rounded& rows = last.of(x, scales, [&] { return by_rows(as_rows(x), scales, rounds, true); });
      const Rounded rounded = by_rows(used, scales, rounds, true);
      x_largest = rows.largest, weight_largest = rounded.largest;
      std::vector<int64_t> shape = x.sizes().vec();
      shape.back() = used.size(0);
      return product(rows.matrix, rounded.matrix, x.scalar_type(), /*fast=*/true).view(shape);
    });
    ctx->save_for_backward({x, weight, x_largest, weight_largest});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("float8_linear");
    const auto saved = ctx->get_saved_variables();
    const WeightAccessPtr access =
        c10::static_intrusive_pointer_cast<AccessHolder>(ctx->saved_data["access"].toCapsule())->access;
    const auto scales = static_cast<Float8Scales>(ctx->saved_data["scales"].toInt());
    const Tensor &x = saved[0], &weight = saved[1], &x_largest = saved[2], &weight_largest = saved[3];
    const Tensor d_rows = as_rows(grads[0]);
    const Float8Rounding rounds = rounding(scales, false), gradient_rounds = rounding(scales, true);
    const bool wants_weight = ctx->needs_input_grad(1);
    Tensor d_x, d_weight, d_largest;
    if (ctx->needs_input_grad(0)) {
      const Tensor used = whole(weight, x, access);
      const Rounded d = by_rows(d_rows, scales, gradient_rounds, wants_weight);
      d_largest = d.largest;
      const Float8Matrix columns = by_columns(used, scales, rounds, weight_largest);
      d_x = product(d.matrix, columns, x.scalar_type(), /*fast=*/false).view(x.sizes());
    }
    if (wants_weight) {
      const Float8Matrix d = by_columns(d_rows, scales, gradient_rounds, d_largest);
      thread_local LastRounded last;
      const Rounded& columns =
          last.of(x, scales, [&] { return Rounded{by_columns(as_rows(x), scales, rounds, x_largest), {}}; });
      // A reduction over ranks takes the type that the gathered weight has.
      const at::ScalarType dtype = access ? x.scalar_type() : weight.scalar_type();
      d_weight = reduce(product(d, columns.matrix, dtype, /*fast=*/false), access).to(weight.scalar_type());
    }
    return {d_x, d_weight, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

const std::vector<std::string_view>& float8_names() {
  static const std::vector<std::string_view> names = {"rowwise", "tensorwise"};
  return names;
}

Float8Scales parse_float8(std::string_view name) {
  if (name == "rowwise") return Float8Scales::Rowwise;
  require<ConfigError>(name == "tensorwise", "[float8] scales must be rowwise or tensorwise; got \"", name, "\".");
  return Float8Scales::Tensorwise;
}

void require_float8(at::Device device, Float8Scales scales) {
  if (!device.is_cuda()) return;
#if EASYDEL_HAS_CUDA
  const auto* properties = at::cuda::getDeviceProperties(device.has_index() ? device.index() : c10::DeviceIndex{0});
  const int have = properties->major * 10 + properties->minor, need = scales == Float8Scales::Rowwise ? 90 : 89;
  require<NotSupportedError>(have >= need, "[float8] ", float8_names()[static_cast<std::size_t>(scales)],
                             " scales need a GPU of compute capability ", need / 10, ".", need % 10, " or newer; got ",
                             properties->major, ".", properties->minor, ". Train in bfloat16 there.");
#endif
}

Tensor float8_linear(const Tensor& x, const Tensor& weight, Float8Scales scales, std::string_view name,
                     const WeightAccessPtr& access) {
  const bool in_training = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  if ((!in_training && !inside_checkpoint()) || x.numel() == 0) return linear(x, weight, {}, name, {false, access, {}});
  return Float8Linear::apply(x, weight, scales, name, access);
}

}  // namespace easydel::operations
