// Products of matrices with one vector or a few, and what surrounds them in a decoder, in one launch.
#pragma once

#include "easydel/operations/kernels/cuda/packed_kernels.h"

namespace easydel::operations::cuda_kernels {

// y[v] = weight x[v] + bias for each matrix. Weights and x are dense and 16-byte aligned.
struct RowProduct {
  struct Matrix {
    PackedRows weight;  // Dense: codes are [rows, width] of x's type
    const void* bias;   // [rows] of x's type, or null
    void* y;            // [vectors, rows]
    bool rotated;       // rows are heads that are rotated
  };
  static constexpr int kMaxMatrices = 4;
  Matrix matrices[kMaxMatrices];
  int count;
  PackedLayout layout;
  const void* x;  // [vectors, width]
  int vectors;

  RowNorm norm;

  // What becomes of the results, rounded to x's type: added to `residual`, [vectors, rows] or null; or of two matrices
  // act(first) * second, into the first one's y.
  const void* residual;
  bool gated, gelu;

  // Heads of rotated matrices.
  const float* cos;  // rows of `half`
  const float* sin;
  int64_t table_row;  // from one vector's to the next
  int32_t head_size, half;
  bool interleaved;
};
bool can_row_product(Element type, CodeFormat format, int64_t width, int64_t vectors);
void row_product(Element type, const RowProduct& args, Stream stream);

}  // namespace easydel::operations::cuda_kernels
