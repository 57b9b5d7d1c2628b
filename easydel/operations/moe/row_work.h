// Work on rows that are sorted by expert, beside their products: what the files of this folder share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "easydel/operations/moe/moe.h"

namespace easydel::operations {

// Without gradients: [T, D] to [R, D], every token once for each of its experts.
at::Tensor spread_rows(const at::Tensor& x, const Dispatch& dispatch);
// [R, D] to [T, D]: the sum of each token's rows, times weights [T, k] where they are defined.
at::Tensor sum_rows(const at::Tensor& rows, const at::Tensor& weights, const Dispatch& dispatch);

// fused_experts with our own kernels: for CUDA tensors with rows of 16 bytes and a supported activation.
bool can_fuse_on_cuda(const at::Tensor& x, const StackedExperts& experts);
at::Tensor fused_experts_on_cuda(const at::Tensor& x, const at::Tensor& weights, const StackedExperts& experts,
                                 const Dispatch& dispatch);

// Work on rows, on the calling thread: f(first, count). It refers to the tensors' memory.
using RowWork = std::function<void(int64_t, int64_t)>;

// gated_activation(gate_up, act), written into y.
RowWork gated_activation_rows(const at::Tensor& gate_up, const Activation& act, const at::Tensor& y);
// The rows of gated_activation(gate_up, act), each times its weight.
struct Weighted {
  at::Tensor weights, d_weights;  // [R]; the second is written
};
// From d_y [R, I], the gradient of those rows, which may be overwritten: y [R, I], the rows themselves, the weights'
// gradients, and d_gate_up [R, 2I].
RowWork weighted_activation_backward(const at::Tensor& gate_up, const Activation& act, const Weighted& weighted,
                                     const at::Tensor& d_y, const at::Tensor& y, const at::Tensor& d_gate_up);

}  // namespace easydel::operations
