// Products of matrices with one new token, or a few, on a GPU, with what surrounds them in a decoder in the same
// launch. No gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "easydel/operations/linear/around_products.h"
#include "easydel/operations/quantized/packed_product.h"

namespace easydel::operations::cuda_fused {

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

}  // namespace easydel::operations::cuda_fused
