#include "easydel/operations/rope.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/dtype.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMaxHeadSize = 4096;  // what the kernel has scratch memory for

Tensor rotate_with_kernel(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved,
                          bool inverse) {
  const Tensor x = x_in.stride(-1) == 1 ? x_in : x_in.contiguous();
  const auto acc = acc_type(x.scalar_type());
  const auto dense = [&](const Tensor& table) {
    return table.scalar_type() == acc && table.is_contiguous() ? table : table.to(acc).contiguous();
  };
  const Tensor cos = dense(cos_in), sin = dense(sin_in);
  Tensor y = at::empty(x.sizes(), x.options());
  kernels::RotaryArgs args{};
  args.x = x.const_data_ptr();
  args.x_batch = x.stride(0), args.x_token = x.stride(1), args.x_head = x.stride(2);
  args.y = y.mutable_data_ptr();
  args.tokens = x.size(1), args.heads = x.size(2), args.head_size = x.size(3);
  args.cos = cos.const_data_ptr();
  args.sin = sin.const_data_ptr();
  args.half = cos.size(-1);
  args.table_batch = cos.size(0) == 1 ? 0 : cos.stride(0), args.table_token = cos.stride(1);
  args.interleaved = interleaved;
  args.inverse = inverse;
  const auto kernel = kernels::for_elements(x.scalar_type()).rotary;
  for_rows(x.size(0) * x.size(1), x.size(2) * x.size(3), [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  return y;
}

Tensor rotate_composed(const Tensor& x, const Tensor& cos_in, const Tensor& sin_in, bool interleaved, bool inverse) {
  const auto acc = acc_type(x.scalar_type());
  const int64_t half = cos_in.size(-1);
  const Tensor cos = cos_in.to(acc).unsqueeze(2);
  const Tensor sin = (inverse ? -sin_in : sin_in).to(acc).unsqueeze(2);
  const Tensor rotated = x.narrow(-1, 0, 2 * half).to(acc);
  Tensor a, b;
  if (interleaved) {
    a = rotated.slice(-1, 0, 2 * half, 2);
    b = rotated.slice(-1, 1, 2 * half, 2);
  } else {
    a = rotated.narrow(-1, 0, half);
    b = rotated.narrow(-1, half, half);
  }
  const Tensor first = a * cos - b * sin, second = b * cos + a * sin;
  Tensor turned = interleaved ? at::stack({first, second}, -1).flatten(-2) : at::cat({first, second}, -1);
  turned = turned.to(x.scalar_type());
  return 2 * half == x.size(-1) ? turned : at::cat({turned, x.narrow(-1, 2 * half, x.size(-1) - 2 * half)}, -1);
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, bool inverse) {
  if (cuda_fused::applies(x)) return cuda_fused::rotary(x, {}, cos, sin, interleaved, inverse).first;
  return kernels::applies(x) ? rotate_with_kernel(x, cos, sin, interleaved, inverse)
                             : rotate_composed(x, cos, sin, interleaved, inverse);
}

// The gradient of a rotation is the inverse rotation, so x is not kept.
struct Rotary : torch::autograd::Function<Rotary> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    return rotate(x, cos, sin, interleaved, /*inverse=*/false);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("apply_rotary");
    const auto saved = ctx->get_saved_variables();
    return {rotate(grads[0], saved[0], saved[1], ctx->saved_data["interleaved"].toBool(), /*inverse=*/true), Tensor(),
            Tensor(), Tensor()};
  }
};

// q and k in one launch of a GPU's kernel.
struct RotaryPair : torch::autograd::Function<RotaryPair> {
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& cos,
                               const Tensor& sin, bool interleaved) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    const auto [turned_q, turned_k] = cuda_fused::rotary(q, k, cos, sin, interleaved, /*inverse=*/false);
    return {turned_q, turned_k};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("apply_rotary");
    const auto saved = ctx->get_saved_variables();
    const auto [d_q, d_k] = cuda_fused::rotary(grads[0], grads[1], saved[0], saved[1],
                                               ctx->saved_data["interleaved"].toBool(), /*inverse=*/true);
    return {d_q, d_k, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

RopeTable rope_table(const RopeFrequencies& frequencies, const Tensor& positions_in, at::ScalarType dtype) {
  require<ShapeError>(positions_in.dim() == 1 || positions_in.dim() == 2,
                      "[rope_table] positions must be [T] or [B, T]; got ", positions_in.sizes(), ".");
  const Tensor positions = positions_in.dim() == 1 ? positions_in.unsqueeze(0) : positions_in;
  const Tensor angles = positions.unsqueeze(-1).to(dtype) * frequencies.inv_freq.to(positions.device(), dtype);
  RopeTable table{angles.cos(), angles.sin()};
  if (frequencies.attention_scaling != 1.0) {
    table.cos.mul_(frequencies.attention_scaling);
    table.sin.mul_(frequencies.attention_scaling);
  }
  return table;
}

namespace {

void check(const Tensor& x, const RopeTable& table) {
  require<ShapeError>(x.dim() == 4, "[apply_rotary] q and k must be [B, T, heads, head_size]; got ", x.sizes(), ".");
  const Tensor& cos = table.cos;
  require<ShapeError>(cos.dim() == 3 && cos.sizes() == table.sin.sizes(),
                      "[apply_rotary] cos and sin must be [B, T, rotated / 2]; got ", cos.sizes(), " and ",
                      table.sin.sizes(), ".");
  require<ShapeError>((cos.size(0) == 1 || cos.size(0) == x.size(0)) && cos.size(1) == x.size(1),
                      "[apply_rotary] the table is for batch and tokens ", cos.size(0), " x ", cos.size(1), "; x has ",
                      x.size(0), " x ", x.size(1), ".");
  require<ShapeError>(2 * cos.size(2) <= x.size(3) && x.size(3) <= kMaxHeadSize, "[apply_rotary] the table rotates ",
                      2 * cos.size(2), " dimensions; a head has ", x.size(3), " (at most ", kMaxHeadSize, ").");
}

}  // namespace

Tensor apply_rotary(const Tensor& x, const RopeTable& table, RopeStyle style) {
  check(x, table);
  const bool interleaved = style == RopeStyle::Interleaved;
  if (!at::GradMode::is_enabled() || !x.requires_grad())
    return rotate(x, table.cos, table.sin, interleaved, /*inverse=*/false);
  return Rotary::apply(x, table.cos, table.sin, interleaved);
}

namespace {

// Whether one launch can rotate both.
bool are_rotated_together(const Tensor& q, const Tensor& k) {
  return cuda_fused::applies(q) && k.scalar_type() == q.scalar_type() && q.dim() == 4 && k.dim() == 4 &&
         q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3);
}

}  // namespace

std::optional<std::pair<Tensor, Tensor>> norm_and_rotate(const Tensor& q, const Tensor& k, const HeadNorms& norms,
                                                         const RopeTable& table, RopeStyle style) {
  // A checkpoint's first run has no gradients, and must compute what the second does.
  if (!are_rotated_together(q, k) || inside_checkpoint()) return std::nullopt;
  for (const Tensor& t : {q, k, norms.q, norms.k}) {
    if (at::GradMode::is_enabled() && t.requires_grad()) return std::nullopt;
  }
  check(q, table);
  check(k, table);
  return cuda_fused::norm_and_rotate(q, k, norms, table.cos, table.sin, style == RopeStyle::Interleaved);
}

std::pair<Tensor, Tensor> apply_rotary(const Tensor& q, const Tensor& k, const RopeTable& table, RopeStyle style) {
  const bool needs_graph = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad());
  if (are_rotated_together(q, k)) {
    check(q, table);
    check(k, table);
    const bool interleaved = style == RopeStyle::Interleaved;
    if (!needs_graph) return cuda_fused::rotary(q, k, table.cos, table.sin, interleaved, /*inverse=*/false);
    const variable_list turned = RotaryPair::apply(q, k, table.cos, table.sin, interleaved);
    return {turned[0], turned[1]};
  }
  return {apply_rotary(q, table, style), apply_rotary(k, table, style)};
}

}  // namespace easydel::operations
