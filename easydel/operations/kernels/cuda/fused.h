// Operations as one GPU kernel each, if built with nvcc. No gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "easydel/core/random.h"
#include "easydel/operations/rope.h"

namespace easydel::operations::cuda_fused {

// Whether there are kernels for such tensors: on a GPU, float32, float16 or bfloat16.
bool applies(const at::Tensor& x);

// y and 1 / rms of each row. x is dense; weight has its type.
std::pair<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, double offset,
                                           bool cast_first);
// The gradients of x, and of offset + weight in float32; x, weight and d_y have one type. d_residual is added to that
// of x where it is defined.
bool can_rms_norm_backward(const at::Tensor& x);
std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& d_y, const at::Tensor& rstd, double offset,
                                                    const at::Tensor& d_residual = {});

// Inside a graph capture: f(0), f(1), … as branches that may run concurrently, joined at the end. Tensors that they
// write must be allocated before. Elsewhere, and on the CPU, sequentially.
void in_branches(const at::Tensor& x, int64_t count, const std::function<void(int64_t)>& f);

// Rotates q and k [B, T, heads, H]; k may be undefined. cos and sin are float32.
std::pair<at::Tensor, at::Tensor> rotary(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                         const at::Tensor& sin, bool interleaved, bool inverse);
// The same of heads that are normalized first; nullopt where the kernel does not support their shapes.
std::optional<std::pair<at::Tensor, at::Tensor>> norm_and_rotate(const at::Tensor& q, const at::Tensor& k,
                                                                 const HeadNorms& norms, const at::Tensor& cos,
                                                                 const at::Tensor& sin, bool interleaved);
// act(gate) * up, rows row_strides apart.
at::Tensor gate(const at::Tensor& gate, const at::Tensor& up, int64_t gate_row, int64_t up_row, bool gelu);
// Fills in the gradients of gate and up from d_y, which is dense; d_gate and d_up have rows d_row apart. y, dense, is
// act(gate) * up again where it is defined; it may be d_y.
void gate_backward(const at::Tensor& gate, const at::Tensor& up, int64_t gate_row, int64_t up_row,
                   const at::Tensor& d_y, const at::Tensor& d_gate, const at::Tensor& d_up, int64_t d_row, bool gelu,
                   const at::Tensor& y = {});

// Rows of dense float32 logits [R, V]: nll, lse [R] float32 and correct [R] uint8 are filled in; with row_scale [R]
// d_logits, dense, of any type here and aligned to 16 bytes, is filled with their gradient, or if it is undefined the
// logits are. Rows with the label ignore_index get zeros.
struct CrossEntropyRows {
  at::Tensor logits, labels, row_scale, nll, lse, correct;
  int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0, logit_scale = 1, logit_softcap = 0;
  at::Tensor d_logits = {};
};
void cross_entropy(const CrossEntropyRows& rows);

// Letters: B batch, T tokens, C channels, K taps. x [B, T, C], weight [K, C] float32, bias [C] float32 or undefined,
// runs [B, T] int64 or undefined; see causal_conv.h.
bool can_causal_conv(const at::Tensor& x, int64_t taps, const at::Tensor& runs);
at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& runs);
// The gradients of x, and in float32 of the weight and of a bias, [K + 1, C].
std::pair<at::Tensor, at::Tensor> causal_conv_backward(const at::Tensor& x, const at::Tensor& weight,
                                                       const at::Tensor& runs, const at::Tensor& d_y);

// x *= factor, in place, one number on the same device; x is dense. Nothing is read or written if it is 1.
void scale(const at::Tensor& x, const at::Tensor& factor);

// A step of AdamW on several tensors of one type and device, in place, by the formulas of torch's fused kernel; but a
// parameter is rounded once, after its decay. Each is dense, and laid out as its gradient and moments.
struct AdamwStep {
  double rate = 0, b1 = 0, b2 = 0, eps = 0, decay = 0;
  int64_t count = 1;  // of the steps, this one included
};
void adamw(const std::vector<at::Tensor>& params, const std::vector<at::Tensor>& gradients,
           const std::vector<at::Tensor>& mu, const std::vector<at::Tensor>& nu, const AdamwStep& step);

// One new token of each row, q [B, N, H], k and v [B, K, H]: stores it in its slot, and attends over the cache.
struct CacheSlots {
  at::Tensor k, v;      // [B, K, C, H], dense: a ring of C slots
  at::Tensor slot;      // [1] int64: of the new token
  at::Tensor starts;    // [B] int64 or undefined
  at::Tensor arrivals;  // [B, N] int32: zeros, before and after; of one stream
  int64_t keys = 0;     // an upper bound of the new token's slot, so no more keys need be visited
  int64_t window = 0;
};
bool can_attend_to_cache(const at::Tensor& q_BNH, const CacheSlots& slots);
at::Tensor attend_to_cache(const at::Tensor& q_BNH, const at::Tensor& k_BKH, const at::Tensor& v_BKH,
                           const CacheSlots& slots, double scale, double softcap);

// fill_normal on the tensor's own device, if there is a kernel; else false. The same numbers, up to the last bits of a
// logarithm and of an angle's sine.
bool draw_normal(const at::Tensor& out, RandomKey key, double mean, double stddev, const Region* region);

}  // namespace easydel::operations::cuda_fused
