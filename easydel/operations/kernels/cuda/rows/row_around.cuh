// Shared by the products with few vectors: which rows a warp computes together, and what is done to the vectors before
// and to the results after.
#pragma once

#include "easydel/operations/kernels/cuda/rows/row_kernels.h"
#include "easydel/operations/kernels/cuda/rows/row_parts.cuh"

namespace easydel::operations::cuda_kernels {

// row_codes.cu: of packed weights with one vector in half precision.
void row_codes(Element type, const RowProduct& args, Stream stream);

namespace {

// Two rows that are computed together: of one matrix, or gated, of two.
struct RowPair {
  int matrix, first, second;
  int pair;  // which of a head's is rotated, or -1
};
__device__ inline RowPair rows_of(const RowProduct& a, int index) {
  if (a.gated) return {0, index, index, -1};
  int m = 0;
  for (; m + 1 < a.count; ++m) {
    const int pairs = static_cast<int>((a.matrices[m].weight.rows + 1) / 2);
    if (index < pairs) break;
    index -= pairs;
  }
  if (!a.matrices[m].rotated) return {m, 2 * index, 2 * index + 1, -1};
  const int in_head = a.head_size / 2, head = index / in_head * a.head_size, i = index % in_head;
  if (a.interleaved || i >= a.half) return {m, head + 2 * i, head + 2 * i + 1, i < a.half ? i : -1};
  return {m, head + i, head + i + a.half, i};
}

template <class T>
__device__ inline float with_bias(const RowProduct::Matrix& matrix, int row, float sum) {
  return matrix.bias ? sum + wide(static_cast<const T*>(matrix.bias)[row]) : sum;
}

// Stores vector v's results of a pair of rows, after the biases.
template <class T>
__device__ inline void store_pair(const RowProduct& a, const RowPair& pair, int v, float first, float second) {
  const RowProduct::Matrix& matrix = a.matrices[pair.matrix];
  const int64_t row = v * matrix.weight.rows;
  T* y = static_cast<T*>(matrix.y) + row;
  if (a.gated) {
    const float act = activate(rounded<T>(first), a.gelu).value;
    y[pair.first] = narrow<T>(rounded<T>(act) * rounded<T>(second));
    return;
  }
  if (pair.pair >= 0) {
    const float c = a.cos[v * a.table_row + pair.pair], s = a.sin[v * a.table_row + pair.pair];
    const float one = rounded<T>(first), two = rounded<T>(second);
    first = one * c - two * s, second = two * c + one * s;
  }
  if (a.residual) {
    const T* more = static_cast<const T*>(a.residual) + row;
    first = wide(more[pair.first]) + rounded<T>(first);
    if (pair.second < matrix.weight.rows) second = wide(more[pair.second]) + rounded<T>(second);
  }
  y[pair.first] = narrow<T>(first);
  if (pair.second < matrix.weight.rows) y[pair.second] = narrow<T>(second);
}

}  // namespace
}  // namespace easydel::operations::cuda_kernels
