// Products of float32 matrices for AVX2 and AVX-512 (packed panels, and a tile of results held in registers), and in
// the tiles of AMX.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/operations/kernels/cpu/kernels.h"

namespace easydel::operations::kernels {

struct FloatMatrix {
  const float* data;
  int64_t row, column;  // strides, any
  // If given, row or column i is read from this index.
  const int64_t* rows = nullptr;
  const int64_t* columns = nullptr;

  FloatMatrix from(int64_t first_row, int64_t first_column) const {
    FloatMatrix part = *this;
    part.data += (rows ? 0 : first_row * row) + (columns ? 0 : first_column * column);
    if (rows) part.rows += first_row;
    if (columns) part.columns += first_column;
    return part;
  }
  FloatMatrix transposed() const { return {data, column, row, columns, rows}; }
};

// c [m, n] = a [m, k] times b [k, n], plus `start` [m, n] if given: c itself to accumulate, or with start_row 0 a row
// that is added to all rows. Rows of c and start are dense.
struct FloatProduct {
  FloatMatrix a, b;
  const float* start;
  int64_t start_row;
  float* c;
  int64_t c_row;
  int64_t m, n, k;
};

// Wider products are computed in blocks of this many columns. Any split, of rows or columns, gives the same bits, of
// finite numbers.
constexpr int64_t kFloatProductColumns = 512;

// On the calling thread only.
using FloatProductKernel = void (*)(const FloatProduct&);

std::vector<FloatProductKernel> float_products();  // one for each set of instructions, in ascending order
FloatProductKernel float_product_available();      // the last of them; null where there is none
// Null also where torch's own libraries are as fast. On AMD processors MKL uses only AVX2: the kernel for AVX-512
// is 2.2 times as fast, the one for AVX2 1.08 to 1.2 times (Zen 5, the products of transformers with 50 rows and more).
FloatProductKernel float_product_preferred();

// The kernel for some vectors (kernels.h); null where the instructions are missing or torch's libraries are as fast.
using SomeVectorsKernel = void (*)(const GemvArgs&, int64_t begin, int64_t end);
SomeVectorsKernel some_vectors_preferred();
// Whether it is then faster than the product, for a weight [rows, width].
bool are_some_vectors(int64_t vectors, int64_t width, int64_t rows);
// The fewest rows for which the product is 5 % faster than torch's.
int64_t float_product_rows();

// Whether there are instructions for products of such elements. Where not, torch's products of them take several times
// as long as those of float32.
bool multiplies_bfloat16();
bool multiplies_float16();

}  // namespace easydel::operations::kernels
