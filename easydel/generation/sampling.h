// Sampling tokens. The random number depends only on (key, stream, step): a row draws the same tokens from the
// same scores in any batch and on any mesh.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "easydel/core/random.h"

namespace easydel {

// One number in [0, 1) for each row and step, made on the host some steps ahead; a step reads its own on the device.
class UniformStream {
 public:
  // streams[b] names the numbers of row b.
  UniformStream(RandomKey key, std::vector<int64_t> streams, at::Device device);
  at::Tensor at_step(int64_t step);  // [B] float64

 private:
  void fill(int64_t first);
  RandomKey key_;
  std::vector<int64_t> streams_;
  at::Device device_;
  at::Tensor table_;  // [steps, B]
  int64_t first_ = -1;
};

// The number of one row and step, with 48 random bits.
double uniform_at(RandomKey key, int64_t stream, int64_t step);

// A token of each row [B], drawn from softmax(scores) through the inverse of its distribution function. No sync with
// the device, so that a CUDA graph can hold it. A row without any possible token, or with NaN, gets -1.
at::Tensor sample_tokens(const at::Tensor& scores_BV, const at::Tensor& uniform_B);

// `count` different entries of each row [B, count], in the order in which they are drawn. Entry v of row b takes part
// with the number of (key, streams[b], step, v). Impossible entries come last, where there are too few others.
at::Tensor sample_without_replacement(const at::Tensor& scores_BV, int64_t count, RandomKey key,
                                      const std::vector<int64_t>& streams, int64_t step);

}  // namespace easydel
