#include "easydel/operations/norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/dtype.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::RmsNormArgs kernel_args(const Tensor& x, const Tensor& factor, double eps, bool cast_first) {
  return {x.const_data_ptr(), factor.const_data_ptr(), x.size(-1), eps, cast_first};
}

// offset + weight as the kernels need it. The weight is first rounded to x's type, which may be narrower.
Tensor factor_of(const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
  const auto acc = acc_type(x.scalar_type());
  if (!weight.defined())
    return at::full({x.size(-1)}, options.weight_offset == 0.0 ? 1.0 : options.weight_offset, x.options().dtype(acc));
  const bool fits = x.scalar_type() == acc && weight.scalar_type() == acc && weight.is_contiguous();
  const Tensor wide = fits ? weight : weight.to(x.scalar_type()).to(acc).contiguous();
  return options.weight_offset == 0.0 ? wide : wide + options.weight_offset;
}

struct Normed {
  Tensor y, rstd;
};
Normed normed(const Tensor& x, const Tensor& factor, const RmsNormOptions& options) {
  const bool cast_first = !options.multiply_before_cast && x.element_size() == 2;
  if (kernels::applies(x)) {
    Normed out{at::empty(x.sizes(), x.options()), at::empty({kernels::row_count(x)}, factor.options())};
    const auto args = kernel_args(x, factor, options.eps, cast_first);
    const auto kernel = kernels::for_elements(x.scalar_type()).rms_norm_forward;
    for_rows(out.rstd.numel(), x.size(-1),
             [&, y_data = out.y.mutable_data_ptr(), r_data = out.rstd.mutable_data_ptr()](int64_t begin, int64_t end) {
               kernel(args, y_data, r_data, begin, end);
             });
    return out;
  }
  const Tensor wide = x.to(factor.scalar_type());
  const Tensor rstd = at::rsqrt(wide.square().mean(-1, true) + options.eps), normalized = wide * rstd;
  return {((cast_first ? normalized.to(x.scalar_type()) : normalized) * factor).to(x.scalar_type()), rstd};
}

// On a GPU: one kernel forward, one backward and the sum of its parts, whatever type the weight is stored in.
struct RmsNormOnCuda : torch::autograd::Function<RmsNormOnCuda> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
    const Tensor rounded = weight.to(x.scalar_type()).contiguous();
    const bool cast_first = !options.multiply_before_cast && x.element_size() == 2;
    const auto [y, rstd] = cuda_fused::rms_norm(x, rounded, options.eps, options.weight_offset, cast_first);
    ctx->save_for_backward({x, rounded, rstd});
    ctx->saved_data["offset"] = options.weight_offset;
    ctx->saved_data["type"] = static_cast<int64_t>(weight.scalar_type());
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("rms_norm");
    const auto saved = ctx->get_saved_variables();
    const auto [d_x, d_factor] =
        cuda_fused::rms_norm_backward(saved[0], saved[1], grads[0], saved[2], ctx->saved_data["offset"].toDouble());
    return {d_x, d_factor.to(static_cast<at::ScalarType>(ctx->saved_data["type"].toInt())), Tensor()};
  }
};

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const std::optional<Tensor>& given,
                        const RmsNormOptions& options) {
    const Tensor x = x_in.contiguous(), weight = given.value_or(Tensor());
    const Tensor factor = factor_of(x, weight, options);
    const Normed out = normed(x, factor, options);
    ctx->save_for_backward({x, weight, factor, out.rstd});
    return out.y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("rms_norm");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &factor = saved[2], &rstd = saved[3];
    const Tensor d_y = grads[0].contiguous();
    const bool wants_x = ctx->needs_input_grad(0), wants_weight = weight.defined() && ctx->needs_input_grad(1);
    Tensor d_x, d_factor;
    if (kernels::applies(x)) {
      const int64_t width = x.size(-1);
      if (wants_x) d_x = at::empty_like(x);
      // A row of sums for each thread, summed at the end.
      Tensor sums;
      if (wants_weight) sums = at::zeros({at::get_num_threads(), width}, factor.options());
      const auto args = kernel_args(x, factor, 0.0, false);
      const auto kernel = kernels::for_elements(x.scalar_type()).rms_norm_backward;
      for_rows(rstd.numel(), width, [&](int64_t begin, int64_t end) {
        char* sum = wants_weight ? static_cast<char*>(sums.mutable_data_ptr()) +
                                       at::get_thread_num() * width * sums.element_size()
                                 : nullptr;
        kernel(args, rstd.const_data_ptr(), d_y.const_data_ptr(), wants_x ? d_x.mutable_data_ptr() : nullptr, sum,
               begin, end);
      });
      if (wants_weight) d_factor = sums.sum(0);
    } else {
      const Tensor wide = x.to(factor.scalar_type()), g = d_y.to(factor.scalar_type());
      const Tensor normalized = wide * rstd;
      if (wants_weight) d_factor = (g * normalized).reshape({-1, x.size(-1)}).sum(0);
      if (wants_x) {
        const Tensor scaled = g * factor;
        d_x = (rstd * (scaled - normalized * (scaled * normalized).mean(-1, true))).to(x.scalar_type());
      }
    }
    return {d_x, wants_weight ? d_factor.to(weight.scalar_type()) : Tensor(), Tensor()};
  }
};

void require_width(const char* name, const Tensor& x, const Tensor& parameter) {
  require<ShapeError>(!parameter.defined() || (parameter.dim() == 1 && parameter.size(0) == x.size(-1)), "[", name,
                      "] weight and bias must have the ", x.size(-1), " elements of x's last dimension; got ",
                      parameter.defined() ? parameter.numel() : 0, ".");
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
  require<ShapeError>(x.dim() >= 1, "[rms_norm] x must have at least one dimension; got a scalar.");
  require_width("rms_norm", x, weight);
  const bool needs_graph =
      at::GradMode::is_enabled() && (x.requires_grad() || (weight.defined() && weight.requires_grad()));
  if (!needs_graph && cuda_fused::applies(x) && weight.defined() && weight.scalar_type() == x.scalar_type()) {
    const bool cast_first = !options.multiply_before_cast && x.element_size() == 2;
    return cuda_fused::rms_norm(x.contiguous(), weight.contiguous(), options.eps, options.weight_offset, cast_first)
        .first;
  }
  if (needs_graph && weight.defined() && cuda_fused::applies(x)) {
    const Tensor dense = x.contiguous();
    if (cuda_fused::can_rms_norm_backward(dense)) return RmsNormOnCuda::apply(dense, weight, options);
  }
  const bool plain = options.weight_offset == 0.0 && weight.defined() && weight.scalar_type() == x.scalar_type();
  if (x.is_cuda() && plain) return at::rms_norm(x, {x.size(-1)}, weight, options.eps);  // fused there
  if (needs_graph) return RmsNorm::apply(x, kernels::as_optional(weight), options);
  const Tensor dense = x.contiguous();
  return normed(dense, factor_of(dense, weight, options), options).y;
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require<ShapeError>(x.dim() >= 1, "[layer_norm] x must have at least one dimension; got a scalar.");
  require_width("layer_norm", x, weight);
  require_width("layer_norm", x, bias);
  const auto cast = [&](const Tensor& t) { return t.defined() ? t.to(x.scalar_type()) : t; };
  return at::layer_norm(x, {x.size(-1)}, cast(weight), cast(bias), eps);
}

}  // namespace easydel::operations
