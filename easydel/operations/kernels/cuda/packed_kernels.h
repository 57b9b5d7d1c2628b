// The GPU kernels of packed weights, on raw pointers.
#pragma once

#include "easydel/operations/kernels/cuda/cuda_kernels.h"

namespace easydel::operations::cuda_kernels {

// How codes are stored; packed_product.h says what they stand for.
enum class CodeFormat : uint8_t { Int8, Nf4, Int4, Dense };  // Dense: no codes, for row_product alone
enum class ScaleFormat : uint8_t { Float32, Float16, Nested };

// Rows of codes, dense and 16-byte aligned.
struct PackedRows {
  const void* codes;
  const void* scales;
  // Nested: a scale is map[code] * outer[i / outer_block] + *offset, with i counted over all rows.
  const float* map;
  const float* outer;
  const float* offset;
  int64_t rows;
};

// What the matrices of a launch have in common.
struct PackedLayout {
  CodeFormat codes;
  ScaleFormat scales;
  int64_t width, group, outer_block;
  int32_t groups = 0;                          // of a row
  int32_t group_shift = -1, outer_shift = -1;  // log2 of group and outer_block, or -1 where that is no integer
};
bool can_read_packed(const PackedLayout& layout);

// Matrices times vectors in one launch: y[v] = weight x[v] + bias. x is dense and 16-byte aligned.
struct PackedProduct {
  struct Matrix {
    PackedRows weight;
    const void* bias;  // [rows] of x's type, or null
    void* y;           // [vectors, rows]
  };
  static constexpr int kMaxMatrices = 4;
  Matrix matrices[kMaxMatrices];
  int count;
  PackedLayout layout;
  const void* x;  // [vectors, width]
  int vectors;
};
int64_t most_packed_vectors(Element type);  // with more, dequantizing once is faster
void packed_product(Element type, const PackedProduct& args, Stream stream);

// Rows [begin, begin + count) as a dense matrix of the type.
void unpack_rows(Element type, const PackedRows& weight, const PackedLayout& layout, int64_t begin, int64_t count,
                 void* y, Stream stream);

}  // namespace easydel::operations::cuda_kernels
