// Rounding matrices to float8, on raw pointers. x [rows, width] has rows x_row elements apart, and starts at 16 bytes.
#pragma once

#include "easydel/operations/kernels/cuda/cuda_kernels.h"

namespace easydel::operations::cuda_kernels {

// Which of the two formats, and how a largest magnitude becomes a scale.
struct Float8Format {
  bool e5m2;          // else e4m3
  bool power_of_two;  // scales are rounded down to one
  float largest() const { return e5m2 ? 57344.0f : 448.0f; }
};

// Each row by itself: out [rows, width] dense, inverse [rows] is 1 / scale. column_parts, [parts, width] or null, gets
// the largest magnitudes of columns over some of the rows each.
struct Float8Rows {
  const void* x;
  uint8_t* out;
  float* inverse;
  float* column_parts;
  int64_t x_row, rows, width;
  Float8Format format;
  int parts;
};
bool can_cast_float8_rows(Element type, int64_t width);
int float8_row_parts(Element type, int64_t rows, int64_t width);
void float8_rows(Element type, const Float8Rows& args, Stream stream);

// The largest magnitude of x, as the bits of a float: starts at zero.
struct Float8Largest {
  const void* x;
  uint32_t* largest;
  int64_t x_row, rows, width;
};
void float8_largest(Element type, const Float8Largest& args, Stream stream);

// By magnitudes that are known: of columns, or with largest_step 0 one of all. Transposed, out is [width, out_row] with
// zeros behind the first `rows`, out_row a multiple of 4; else [rows, width]. inverse gets 1 / scale of each.
struct Float8Cast {
  const void* x;
  uint8_t* out;
  float* inverse;
  const float* largest;
  int64_t largest_step, x_row, rows, width, out_row;
  Float8Format format;
  bool transposed;
};
void float8_cast(Element type, const Float8Cast& args, Stream stream);

}  // namespace easydel::operations::cuda_kernels
