// Products of matrices with one new token, or a few, on a GPU, with what surrounds them in a decoder in the same
// launch. No gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "easydel/operations/activation.h"
#include "easydel/operations/norm.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/operations/rope.h"

namespace easydel::operations {

// What is done to the input and to the results of several linear maps of one x.
struct AroundProducts {
  at::Tensor norm = {};  // x is normalized with this weight; undefined: it is not
  RmsNormOptions norm_options = {};
  at::Tensor residual = {};          // added to the result of the only map
  const Activation* gate = nullptr;  // of two maps: act(first) * second is the only result
  const RopeTable* rope = nullptr;   // rotates the results of the first `rotated` maps, heads of head_size
  RopeStyle rope_style = RopeStyle::Half;
  int64_t head_size = 0;
  std::size_t rotated = 0;
};

namespace cuda_fused {

// A dense matrix [out, in] of x's type, or codes.
struct RowMap {
  at::Tensor weight;
  const PackedCodes* codes = nullptr;
  at::Tensor bias = {};
};
// Whether one launch computes all of it: a GPU with kernels, up to four vectors (codes: one), rotations of rows or of
// tokens, and types and widths that the kernel reads.
bool can_multiply_rows(const at::Tensor& x, const std::vector<RowMap>& maps, const AroundProducts& around);
std::vector<at::Tensor> multiply_rows(const at::Tensor& x, const std::vector<RowMap>& maps,
                                      const AroundProducts& around);

}  // namespace cuda_fused
}  // namespace easydel::operations
