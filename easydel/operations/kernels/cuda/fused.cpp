#include "easydel/operations/kernels/cuda/fused.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"

#include "easydel/core/build_info.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/launch.h"
#endif

namespace easydel::operations::cuda_fused {

using at::Tensor;

#if EASYDEL_HAS_CUDA
void in_branches(const Tensor& x, int64_t count, const std::function<void(int64_t)>& f) {
  const bool capturing =
      x.is_cuda() && c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  if (!capturing || count < 2) {
    for (int64_t i = 0; i < count; ++i) f(i);
    return;
  }
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent begin;
  begin.record(current);
  std::vector<at::cuda::CUDAEvent> ends;
  for (int64_t i = 1; i < count; ++i) {
    const c10::cuda::CUDAStream branch = c10::cuda::getStreamFromPool(false, current.device_index());
    begin.block(branch);
    {
      const c10::cuda::CUDAStreamGuard guard(branch);
      f(i);
    }
    ends.emplace_back().record(branch);
  }
  f(0);
  for (at::cuda::CUDAEvent& end : ends) end.block(current);
}
#else
void in_branches(const Tensor&, int64_t count, const std::function<void(int64_t)>& f) {
  for (int64_t i = 0; i < count; ++i) f(i);
}
#endif

#ifdef EASYDEL_CUDA_KERNELS

bool applies(const Tensor& x) {
  return x.is_cuda() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16);
}

std::pair<Tensor, Tensor> rms_norm(const Tensor& x, const Tensor& weight, double eps, double offset, bool cast_first) {
  Tensor y = at::empty(x.sizes(), x.options());
  const int64_t rows = x.size(-1) ? x.numel() / x.size(-1) : 0;
  Tensor rstd = at::empty({rows}, x.options().dtype(at::kFloat));
  const cuda_kernels::RmsNorm args{x.const_data_ptr(),
                                   weight.const_data_ptr(),
                                   y.mutable_data_ptr(),
                                   rstd.mutable_data_ptr<float>(),
                                   rows,
                                   x.size(-1),
                                   static_cast<float>(eps),
                                   static_cast<float>(offset),
                                   cast_first};
  launch(x, [&](auto stream) { cuda_kernels::rms_norm(element_of(x), args, stream); });
  return {y, rstd};
}

bool can_rms_norm_backward(const Tensor& x) {
  return applies(x) && x.numel() > 0 && x.is_contiguous() && in_packs(x) &&
         cuda_kernels::can_rms_norm_backward(element_of(x), x.size(-1));
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& x, const Tensor& weight_in, const Tensor& d_y_in,
                                            const Tensor& rstd, double offset, const Tensor& residual_in) {
  const auto dense = [](const Tensor& t) { return t.is_contiguous() && in_packs(t) ? t : t.contiguous().clone(); };
  const Tensor weight = dense(weight_in), d_y = dense(d_y_in);
  const Tensor d_residual = residual_in.defined() ? dense(residual_in) : residual_in;
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const int parts = cuda_kernels::rms_norm_parts(element_of(x), rows, width);
  const Tensor d_x = at::empty_like(x), d_factor = at::empty({parts, width}, rstd.options());
  Tensor sum = at::empty({width}, rstd.options());
  const cuda_kernels::RmsNormBackward args{x.const_data_ptr(),
                                           weight.const_data_ptr(),
                                           d_y.const_data_ptr(),
                                           d_residual.defined() ? d_residual.const_data_ptr() : nullptr,
                                           rstd.const_data_ptr<float>(),
                                           d_x.mutable_data_ptr(),
                                           d_factor.mutable_data_ptr<float>(),
                                           sum.mutable_data_ptr<float>(),
                                           rows,
                                           width,
                                           static_cast<float>(offset),
                                           parts};
  launch(x, [&](auto stream) { cuda_kernels::rms_norm_backward(element_of(x), args, stream); });
  return {d_x, sum};
}

namespace {

// Rotations of dense heads, and what the arguments point to.
struct Rotation {
  Tensor q, k, cos, sin, q_out, k_out;
  cuda_kernels::Rotary args;

  Rotation(const Tensor& q_in, const Tensor& k_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved,
           bool inverse) {
    const auto dense_heads = [](const Tensor& x) { return !x.defined() || x.stride(-1) == 1 ? x : x.contiguous(); };
    q = dense_heads(q_in), k = dense_heads(k_in);
    cos = cos_in.to(at::kFloat).contiguous(), sin = sin_in.to(at::kFloat).contiguous();
    q_out = at::empty(q.sizes(), q.options());
    if (k.defined()) k_out = at::empty(k.sizes(), k.options());
    const auto heads = [](const Tensor& x, const Tensor& y) -> cuda_kernels::Rotary::Heads {
      if (!x.defined()) return {};
      return {x.const_data_ptr(),
              y.mutable_data_ptr(),
              x.stride(0),
              x.stride(1),
              x.stride(2),
              static_cast<int32_t>(x.size(2)),
              {}};
    };
    args = {heads(q, q_out),
            heads(k, k_out),
            q.size(0),
            q.size(1),
            static_cast<int32_t>(q.size(3)),
            static_cast<int32_t>(cos.size(-1)),
            cos.const_data_ptr<float>(),
            sin.const_data_ptr<float>(),
            cos.size(0) == 1 ? 0 : cos.stride(0),
            cos.stride(1),
            interleaved,
            inverse};
  }
  std::pair<Tensor, Tensor> run() const {
    launch(q, [&](auto stream) { cuda_kernels::rotary(element_of(q), args, stream); });
    return {q_out, k_out};
  }
};

}  // namespace

std::pair<Tensor, Tensor> rotary(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin,
                                 bool interleaved, bool inverse) {
  return Rotation(q, k, cos, sin, interleaved, inverse).run();
}

std::optional<std::pair<Tensor, Tensor>> norm_and_rotate(const Tensor& q, const Tensor& k, const HeadNorms& norms,
                                                         const Tensor& cos, const Tensor& sin, bool interleaved) {
  const auto fits = [&](const Tensor& weight) {
    return weight.is_cuda() && weight.scalar_type() == q.scalar_type() && weight.is_contiguous() &&
           weight.numel() == q.size(-1);
  };
  if (!fits(norms.q) || !fits(norms.k)) return std::nullopt;
  Rotation rotation(q, k, cos, sin, interleaved, /*inverse=*/false);
  rotation.args.q.norm = row_norm(q, {.norm = norms.q, .norm_options = norms.options});
  rotation.args.k.norm = row_norm(k, {.norm = norms.k, .norm_options = norms.options});
  if (!cuda_kernels::can_norm_heads(element_of(q), rotation.args)) return std::nullopt;
  return rotation.run();
}

Tensor gate(const Tensor& gate, const Tensor& up, int64_t gate_row, int64_t up_row, bool gelu) {
  Tensor y = at::empty(gate.sizes(), gate.options());
  const int64_t width = gate.size(-1);
  const cuda_kernels::Gate args{gate.const_data_ptr(),
                                up.const_data_ptr(),
                                y.mutable_data_ptr(),
                                gate_row,
                                up_row,
                                width ? gate.numel() / width : 0,
                                width,
                                gelu};
  launch(gate, [&](auto stream) { cuda_kernels::gate(element_of(gate), args, stream); });
  return y;
}

void gate_backward(const Tensor& gate, const Tensor& up, int64_t gate_row, int64_t up_row, const Tensor& d_y,
                   const Tensor& d_gate, const Tensor& d_up, int64_t d_row, bool gelu, const Tensor& y) {
  const int64_t width = gate.size(-1);
  const cuda_kernels::GateBackward args{gate.const_data_ptr(),
                                        up.const_data_ptr(),
                                        d_y.const_data_ptr(),
                                        y.defined() ? y.mutable_data_ptr() : nullptr,
                                        d_gate.mutable_data_ptr(),
                                        d_up.mutable_data_ptr(),
                                        gate_row,
                                        up_row,
                                        d_row,
                                        width ? gate.numel() / width : 0,
                                        width,
                                        gelu};
  launch(gate, [&](auto stream) { cuda_kernels::gate_backward(element_of(gate), args, stream); });
}

void cross_entropy(const CrossEntropyRows& r) {
  const cuda_kernels::CrossEntropy args{r.logits.mutable_data_ptr<float>(),
                                        r.d_logits.defined() ? r.d_logits.mutable_data_ptr() : nullptr,
                                        r.labels.const_data_ptr<int64_t>(),
                                        r.row_scale.defined() ? r.row_scale.const_data_ptr<float>() : nullptr,
                                        r.nll.mutable_data_ptr<float>(),
                                        r.lse.mutable_data_ptr<float>(),
                                        r.correct.mutable_data_ptr<uint8_t>(),
                                        r.logits.size(0),
                                        r.logits.size(1),
                                        r.ignore_index,
                                        static_cast<float>(r.label_smoothing),
                                        static_cast<float>(r.z_loss),
                                        static_cast<float>(r.logit_scale),
                                        static_cast<float>(r.logit_softcap)};
  const Tensor& d_logits = r.d_logits.defined() ? r.d_logits : r.logits;
  launch(r.logits, [&](auto stream) { cuda_kernels::cross_entropy(element_of(d_logits), args, stream); });
}

bool can_causal_conv(const Tensor& x, int64_t taps, const Tensor& runs) {
  const int64_t pack = 4 * x.element_size();
  return applies(x) && x.dim() == 3 && x.numel() > 0 && x.stride(2) == 1 && x.stride(0) % 4 == 0 &&
         x.stride(1) % 4 == 0 && reinterpret_cast<std::intptr_t>(x.const_data_ptr()) % pack == 0 &&
         cuda_kernels::can_causal_conv(taps, x.size(2)) &&
         (!runs.defined() || (runs.device() == x.device() && runs.scalar_type() == at::kLong && runs.is_contiguous() &&
                              runs.dim() == 2 && runs.size(0) == x.size(0)));
}

namespace {
cuda_kernels::CausalConv causal_conv_args(const Tensor& x, const Tensor& weight, const Tensor& runs, Tensor& y) {
  cuda_kernels::CausalConv args{};
  args.x = x.const_data_ptr(), args.x_batch = x.stride(0), args.x_token = x.stride(1);
  args.weight = weight.const_data_ptr<float>();
  args.runs = runs.defined() ? runs.const_data_ptr<int64_t>() : nullptr;
  args.y = y.mutable_data_ptr();
  args.batch = x.size(0), args.tokens = x.size(1), args.channels = x.size(2);
  args.taps = static_cast<int>(weight.size(0));
  return args;
}
}  // namespace

Tensor causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& runs) {
  Tensor y = at::empty(x.sizes(), x.options());
  cuda_kernels::CausalConv args = causal_conv_args(x, weight, runs, y);
  const Tensor dense_bias = bias.defined() && !in_packs(bias) ? bias.clone() : bias;
  args.bias = bias.defined() ? dense_bias.const_data_ptr<float>() : nullptr;
  launch(x, [&](auto stream) { cuda_kernels::causal_conv(element_of(x), args, stream); });
  return y;
}

std::pair<Tensor, Tensor> causal_conv_backward(const Tensor& x, const Tensor& weight, const Tensor& runs,
                                               const Tensor& d_y_in) {
  const Tensor d_y = d_y_in.is_contiguous() && in_packs(d_y_in) ? d_y_in : d_y_in.contiguous().clone();
  Tensor d_x = at::empty(x.sizes(), x.options());
  cuda_kernels::CausalConv args = causal_conv_args(x, weight, runs, d_x);
  Tensor terms = at::empty({cuda_kernels::causal_conv_parts(x.size(0), x.size(1)), weight.size(0) + 1, x.size(2)},
                           weight.options());
  args.d_y = d_y.const_data_ptr();
  args.d_weight = terms.mutable_data_ptr<float>();
  launch(x, [&](auto stream) { cuda_kernels::causal_conv_backward(element_of(x), args, stream); });
  return {d_x, terms.sum(0)};
}

void scale(const Tensor& x, const Tensor& factor) {
  if (x.numel() == 0) return;
  const Tensor wide = factor.to(at::kFloat);
  launch(x, [&](auto stream) {
    cuda_kernels::scale(element_of(x), x.mutable_data_ptr(), x.numel(), wide.const_data_ptr<float>(), stream);
  });
}

void adamw(const std::vector<Tensor>& params, const std::vector<Tensor>& gradients, const std::vector<Tensor>& mu,
           const std::vector<Tensor>& nu, const AdamwStep& step) {
  if (params.empty()) return;
  const auto type = element_of(params[0]);
  const auto steps = static_cast<double>(step.count);
  cuda_kernels::Adamw args{};
  args.b1 = static_cast<float>(step.b1), args.one_minus_b1 = static_cast<float>(1 - step.b1);
  args.b2 = static_cast<float>(step.b2), args.one_minus_b2 = static_cast<float>(1 - step.b2);
  args.eps = static_cast<float>(step.eps);
  args.step = static_cast<float>(step.rate / (1 - std::pow(step.b1, steps)));
  args.nu_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(step.b2, steps)));
  args.decay = static_cast<float>(step.rate * step.decay);
  const auto run = [&] {
    launch(params[0], [&](auto stream) { cuda_kernels::adamw(type, args, stream); });
    args.tensors = 0;
  };
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto at = static_cast<std::size_t>(args.tensors);
    args.param[at] = params[i].mutable_data_ptr();
    args.gradient[at] = gradients[i].const_data_ptr();
    args.mu[at] = mu[i].mutable_data_ptr();
    args.nu[at] = nu[i].mutable_data_ptr();
    args.count[at] = params[i].numel();
    const int64_t each = cuda_kernels::adamw_block(type), blocks = (params[i].numel() + each - 1) / each;
    args.first_block[at + 1] = args.first_block[at] + static_cast<int>(blocks);
    if (++args.tensors == cuda_kernels::Adamw::kMaxTensors) run();
  }
  if (args.tensors > 0) run();
}

bool can_attend_to_cache(const Tensor& q, const CacheSlots& slots) {
  return applies(q) && slots.k.scalar_type() == q.scalar_type() && slots.k.size(3) == slots.v.size(3) &&
         slots.k.is_contiguous() && slots.v.is_contiguous() && slots.k.size(1) > 0 &&
         cuda_kernels::can_attend_to_cache(q.size(2));
}

Tensor attend_to_cache(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const CacheSlots& slots,
                       double scale, double softcap) {
  const auto dense_heads = [](const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); };
  const Tensor q = dense_heads(q_in), k = dense_heads(k_in), v = dense_heads(v_in);
  Tensor out = at::empty(q.sizes(), q.options());
  cuda_kernels::AttendToCache args{};
  args.q = q.const_data_ptr(), args.k = k.const_data_ptr(), args.v = v.const_data_ptr();
  args.q_batch = q.stride(0), args.q_head = q.stride(1);
  args.k_batch = k.stride(0), args.k_head = k.stride(1);
  args.v_batch = v.stride(0), args.v_head = v.stride(1);
  args.k_cache = slots.k.mutable_data_ptr(), args.v_cache = slots.v.mutable_data_ptr();
  args.out = out.mutable_data_ptr();
  args.slot = slots.slot.const_data_ptr<int64_t>();
  args.starts = slots.starts.defined() ? slots.starts.const_data_ptr<int64_t>() : nullptr;
  args.capacity = slots.k.size(2), args.window = slots.window, args.keys = std::min(slots.keys, slots.k.size(2));
  args.batch = static_cast<int32_t>(q.size(0));
  args.kv_heads = static_cast<int32_t>(slots.k.size(1));
  args.shared = static_cast<int32_t>(q.size(1) / slots.k.size(1));
  args.head_size = static_cast<int32_t>(q.size(2));
  args.scale = static_cast<float>(scale), args.softcap = static_cast<float>(softcap);
  cuda_kernels::plan_attend_to_cache(element_of(q), args);
  args.arrivals = slots.arrivals.mutable_data_ptr<int32_t>();
  const Tensor scratch = at::empty({cuda_kernels::scratch_floats(args)}, q.options().dtype(at::kFloat));
  args.scratch = scratch.mutable_data_ptr<float>();
  launch(q, [&](auto stream) { cuda_kernels::attend_to_cache(element_of(q), args, stream); });
  return out;
}

bool draw_normal(const Tensor& out, RandomKey key, double mean, double stddev, const Region* region) {
  constexpr auto kMaxDims = static_cast<int64_t>(cuda_kernels::DrawNormal::kMaxDims);
  if (!applies(out) || !out.is_contiguous() || out.dim() < 1 || out.dim() > kMaxDims) return false;
  if (region && (region->offset.size() != out.sizes().size() || region->global_shape.size() != out.sizes().size()))
    return false;
  cuda_kernels::DrawNormal args{};
  args.y = out.mutable_data_ptr();
  args.count = out.numel();
  args.dims = static_cast<int>(out.dim());
  for (std::size_t d = 0; d < out.sizes().size(); ++d) {
    args.sizes[d] = out.sizes()[d];
    args.offsets[d] = region ? region->offset[d] : 0;
    args.shape[d] = region ? region->global_shape[d] : out.sizes()[d];
    if (args.offsets[d] < 0 || args.offsets[d] + args.sizes[d] > args.shape[d]) return false;  // fill_normal says why
  }
  args.key = key.bits();
  args.mean = static_cast<float>(mean), args.stddev = static_cast<float>(stddev);
  launch(out, [&](auto stream) { cuda_kernels::draw_normal(element_of(out), args, stream); });
  return true;
}

#else

namespace {
[[noreturn]] void missing() {
  fail<NotSupportedError>("[operations] this build has no GPU kernels: it was built without nvcc.");
}
}  // namespace

bool applies(const Tensor&) { return false; }
bool can_attend_to_cache(const Tensor&, const CacheSlots&) { return false; }
bool can_rms_norm_backward(const Tensor&) { return false; }
std::pair<Tensor, Tensor> rms_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                                            const Tensor&) {
  missing();
}
bool draw_normal(const Tensor&, RandomKey, double, double, const Region*) { return false; }
std::pair<Tensor, Tensor> rms_norm(const Tensor&, const Tensor&, double, double, bool) { missing(); }
std::pair<Tensor, Tensor> rotary(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, bool) { missing(); }
std::optional<std::pair<Tensor, Tensor>> norm_and_rotate(const Tensor&, const Tensor&, const HeadNorms&, const Tensor&,
                                                         const Tensor&, bool) {
  missing();
}
Tensor gate(const Tensor&, const Tensor&, int64_t, int64_t, bool) { missing(); }
void gate_backward(const Tensor&, const Tensor&, int64_t, int64_t, const Tensor&, const Tensor&, const Tensor&, int64_t,
                   bool, const Tensor&) {
  missing();
}
void cross_entropy(const CrossEntropyRows&) { missing(); }
bool can_causal_conv(const Tensor&, int64_t, const Tensor&) { return false; }
Tensor causal_conv(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { missing(); }
std::pair<Tensor, Tensor> causal_conv_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  missing();
}
void scale(const Tensor&, const Tensor&) { missing(); }
void adamw(const std::vector<Tensor>&, const std::vector<Tensor>&, const std::vector<Tensor>&,
           const std::vector<Tensor>&, const AdamwStep&) {
  missing();
}
Tensor attend_to_cache(const Tensor&, const Tensor&, const Tensor&, const CacheSlots&, double, double) { missing(); }

#endif

}  // namespace easydel::operations::cuda_fused
