// Matrix products over rows that are sorted by expert, in bfloat16, for GPUs of compute capability 9.0: compiled by
// nvcc without any of torch's headers. All matrices are dense; every width is a multiple of 8.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace easydel::operations::cuda_kernels {

// The rows of expert e end before ends[e], which is read on the device.
struct ExpertEnds {
  const int32_t* ends;
  int32_t experts;
  int64_t rows;
};

bool has_grouped_kernels(int device);

// out[r, m] = sum over k of rows[r, k] * weights[e][m, k], or of weights[e][k, m], for each row r of each expert e.
struct GroupedProduct {
  const void* rows;     // [rows, depth]
  const void* weights;  // [experts, width, depth]; with k_first [experts, depth, width]
  void* out;            // [rows, width]
  int64_t depth, width;
  bool k_first;
};
void grouped_product(const ExpertEnds& experts, const GroupedProduct& args, CUstream_st* stream);

// gate_up = grouped_product of weights [experts, 2 * width, depth], and out = act(gate) * up of its two halves.
struct GatedProduct {
  const void* rows;
  const void* weights;
  void* gate_up;  // [rows, 2 * width], or null
  void* out;      // [rows, width]
  int64_t depth, width;
  bool gelu;
};
void grouped_gated(const ExpertEnds& experts, const GatedProduct& args, CUstream_st* stream);

// out[e][m, n] = sum of a[r, m] * b[r, n] over the rows r of e; zeros where it has none.
struct GroupedOuter {
  const void* a;  // [rows, m]
  const void* b;  // [rows, n]
  void* out;      // [experts, m, n]
  int64_t m, n;
};
void grouped_outer(const ExpertEnds& experts, const GroupedOuter& args, CUstream_st* stream);

}  // namespace easydel::operations::cuda_kernels
