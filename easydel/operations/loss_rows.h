// What cross_entropy and linear_cross_entropy share: the checks, the weights of the rows, and the rows themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "easydel/operations/loss.h"

// Letters: R rows (tokens), V vocabulary. "acc" is float64 for float64 inputs and float32 for all others.
namespace easydel::operations::loss_rows {

struct Problem {
  Problem(const char* name, const at::Tensor& x, const at::Tensor& labels, int64_t vocabulary,
          const CrossEntropyOptions& options);

  CrossEntropyOptions options;
  int64_t rows, vocabulary;
  at::ScalarType acc;
  at::Tensor labels;     // [R] int64
  at::Tensor scale;      // [R] acc: each row's factor in the loss; 0 for ignored rows
  at::Tensor nll, lse;   // [R] acc, filled by compute()
  at::Tensor correct;    // [R] uint8
  at::Tensor num_tokens, weight_sum;

  int64_t chunk_rows() const;

  // Rows [at, at + logits.size(0)). `logits` (acc, dense) is used up: with row_scale [rows of this chunk] it becomes
  // row_scale * d loss / d logits.
  void compute(int64_t at, const at::Tensor& logits, const at::Tensor& row_scale = {});

  at::Tensor row_losses() const;  // scale * (nll + z lse^2)
  // The parts in the order of CrossEntropyOutput, once all rows are computed.
  std::vector<at::Tensor> outputs(at::IntArrayRef label_shape) const;
};

CrossEntropyOutput to_output(const std::vector<at::Tensor>& parts);

// What a row's gradient is multiplied by, given the gradient of the loss.
at::Tensor upstream_scale(const at::Tensor& scale, const at::Tensor& d_loss);

}  // namespace easydel::operations::loss_rows
