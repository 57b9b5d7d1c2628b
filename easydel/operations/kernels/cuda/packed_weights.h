// Packed weights on a GPU, if built with nvcc. No gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "easydel/operations/quantized/packed_product.h"

namespace easydel::operations::cuda_packed {

// Whether there are kernels: on a GPU, with rows of codes that can be read sixteen bytes at a time.
bool applies(const PackedCodes& weight);

// x [..., in] times each matrix, in x's type. Up to 64 vectors (float32: 8) are multiplied from the codes, matrices of
// the same format in one launch; for more, a chunk of rows at a time is dequantized.
std::vector<at::Tensor> multiply(const at::Tensor& x, const std::vector<PackedMap>& maps);

at::Tensor unpack_rows(const PackedCodes& weight, int64_t begin, int64_t end, at::ScalarType type);

}  // namespace easydel::operations::cuda_packed
