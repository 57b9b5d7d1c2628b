// Shared by cross_entropy and linear_cross_entropy: the checks, the weights of the rows, and the row losses.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "easydel/operations/loss/loss.h"

// Letters: R rows (tokens), V vocabulary. "acc" is float64 for float64 inputs and float32 for all others.
namespace easydel::operations::loss_rows {

// Lives as long as the graph needs it.
struct Problem : torch::CustomClassHolder {
  Problem(const char* name, const at::Tensor& x, const at::Tensor& labels, int64_t vocabulary,
          const CrossEntropyOptions& options);

  CrossEntropyOptions options;
  int64_t rows;
  int64_t vocabulary;  // of all ranks
  at::ScalarType acc;
  at::Tensor labels;    // [R] int64
  at::Tensor scale;     // [R] acc: each row's factor in the loss; 0 for ignored rows
  at::Tensor nll, lse;  // [R] acc, filled by compute()
  at::Tensor correct;   // [R] uint8
  at::Tensor num_tokens, weight_sum;

  int64_t chunk_rows() const;

  template <class F>
  void for_chunks(const F& f) const {
    const int64_t size = chunk_rows();
    for (int64_t at = 0; at < rows; at += size) f(at, std::min(size, rows - at));
  }

  // Rows [at, at + logits.size(0)). `logits` (acc, dense) is overwritten: with row_scale [rows of this chunk] it
  // becomes row_scale * d loss / d logits. With d_logits [the same, dense] this does instead; see writes_gradient.
  void compute(int64_t at, const at::Tensor& logits, const at::Tensor& row_scale = {}, const at::Tensor& d_logits = {});
  // Whether compute accepts d_logits for logits on that device.
  bool writes_gradient(const at::Tensor& x) const;

  at::Tensor row_losses() const;  // scale * (nll + z lse^2)
  // The parts in the order of CrossEntropyOutput, once all rows are computed.
  std::vector<at::Tensor> outputs(at::IntArrayRef label_shape) const;
};

using ProblemPtr = c10::intrusive_ptr<Problem>;

CrossEntropyOutput to_output(const std::vector<at::Tensor>& parts);

// The factor of a row's gradient, given the gradient of the loss.
at::Tensor upstream_scale(const at::Tensor& scale, const at::Tensor& d_loss);

}  // namespace easydel::operations::loss_rows
