// The recurrences of linear attention and state space models, over whole sequences in chunks or for one token.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace easydel::operations {

// Letters: B batch, T tokens, I channels, H heads, G groups of heads, N state size, K key size, V value size.
// All compute in float32 or better, and begin with `state`, zeros where it is undefined; runs [B, T] of documents reset
// it, or are undefined. `state` after the last token is the second result. Differentiable in all tensors but runs.
struct Recurred {
  at::Tensor out;  // in the type of the computation
  at::Tensor state;
};

// Mamba: h = exp(dt A) h + dt B x of each channel, y = C h. x and dt [B, T, I], A [I, N] below zero, B and C [B, T, N],
// state [B, I, N]. Keeps one state of each chunk for backward.
Recurred selective_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& a, const at::Tensor& b,
                        const at::Tensor& c, const at::Tensor& state, const at::Tensor& runs);

// Mamba 2: the same with one decay for all of a head. x [B, T, H, V], dt [B, T, H], A [H], B and C [B, T, G, N], state
// [B, H, N, V].
Recurred state_space_duality(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& a, const at::Tensor& b,
                             const at::Tensor& c, const at::Tensor& state, const at::Tensor& runs, int64_t chunk);

// Gated DeltaNet: S = exp(g) S, then S = S + k (beta (v - k S)), y = q S / sqrt(K), with q and k of length one. q and k
// [B, T, G, K], v [B, T, H, V], g (at most zero) and beta [B, T, H], state [B, H, K, V]. With g [B, T, H, K] each
// channel of a key decays by itself (Kimi Delta Attention).
Recurred gated_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                          const at::Tensor& beta, const at::Tensor& state, const at::Tensor& runs);

}  // namespace easydel::operations
