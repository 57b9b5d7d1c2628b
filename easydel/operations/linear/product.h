// Products of dense matrices, by whichever of our kernel and torch's libraries is faster on this machine. On a CPU
// without instructions for bfloat16 or float16, matrices of them are widened in parts, multiplied in float32, and the
// result is rounded once. No gradient flows through these; operations::linear is the differentiable one. The family, by
// how the weights are kept:
//   dense_product     floats (here); its float32 kernels are kernels/cpu/float_product.h and some_vectors_kernels.h
//   packed_product    int8, nf4 or int4 codes with scales (quantized/packed_product.h)
//   block_product     GGUF's blocks (quantized/block_product.h)
//   grouped_product   floats, one matrix for each expert (moe/grouped_product.h)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace easydel::operations {

// Whether our float32 kernel is used for these rows and a weight.
bool has_own_kernel(const at::Tensor& rows);
// Whether dense_product is more than torch's linear: a kernel of ours, or 16 bits that are widened.
bool has_own_product(const at::Tensor& rows, const at::Tensor& weight);

// rows [..., n] and weight [m, n], of any strides: rows times the transposed weight, plus the bias [m] where there is
// one.
at::Tensor dense_product(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias = {});

// a [m, k] times b [k, n], of any strides.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);

// A matrix, or with an index those of its rows (dim 0) or columns (dim 1), without a copy of them.
struct Factor {
  at::Tensor matrix, index;
  int64_t dim = 0;

  Factor(at::Tensor of) : matrix(std::move(of)) {}
  Factor(at::Tensor of, int64_t along, at::Tensor which) : matrix(std::move(of)), index(std::move(which)), dim(along) {}

  Factor t() const { return {matrix.t(), 1 - dim, index}; }
};

// c [m, n] = a times b, or c += with `adds`. c may be float32 where a and b have 16 bits.
struct MatrixProduct {
  at::Tensor c;
  Factor a, b;
  bool adds = false;
};
// The threads share the products' parts, and synchronize once. The same bits for any number of threads.
void multiply_into(const std::vector<MatrixProduct>& products);
// The same as pieces of work for threads that also have other work. They refer to the tensors' memory.
std::vector<std::function<void()>> product_pieces(const std::vector<MatrixProduct>& products);

}  // namespace easydel::operations
