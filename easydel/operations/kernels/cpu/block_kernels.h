// The CPU kernels for rows of GGUF's blocks and of the codes of other published files, as a table of functions for each
// instruction set.
#pragma once

#include <cstdint>

namespace easydel::operations::kernels {

// y[v, row] = (the weights of the row) . x[v].
struct BlockArgs {
  const uint8_t* blocks = nullptr;  // consecutive rows of `row_bytes`
  int64_t row_bytes = 0;
  const float* x = nullptr;     // [vectors, width]
  const float* sums = nullptr;  // [vectors, width / 32]: of x, for the formats that have minima
  int64_t width = 0, vectors = 0;
  float* y = nullptr;  // [vectors, rows], y_row apart
  int64_t y_row = 0;
  // One vector that split_x has split, for the kernels that read it so.
  const int8_t* digits = nullptr;  // [width / 256, 2, 256]
  const float* scales = nullptr;   // [width / 256]
};

// The same for codes with scales of their own: uint4 (float16 scales and zero points), mxfp4 (exponents as bytes, and
// in each 32 columns of x the even ones first) and fp8 (float32 scales).
struct CodeArgs {
  const uint8_t* codes = nullptr;  // consecutive rows of `row_bytes`
  int64_t row_bytes = 0;
  const void* scales = nullptr;               // [rows, groups]
  const uint8_t* zeros = nullptr;             // [rows, groups]
  int64_t group = 0, groups = 0;              // columns of a group, a multiple of 32, and groups of a row
  const float *x = nullptr, *sums = nullptr;  // [vectors, group * groups]; uint4: of each group, [vectors, groups]
  int64_t vectors = 0;
  float* y = nullptr;  // [vectors, rows], y_row apart
  int64_t y_row = 0;
};

// Every kernel works on rows [begin, end), to be called from a parallel loop.
struct BlockKernels {
  int64_t most_vectors;  // with more, decoding a matrix once and a library's product are faster
  void (*q8_0)(const BlockArgs&, int64_t begin, int64_t end);
  void (*q4_k)(const BlockArgs&, int64_t begin, int64_t end);
  void (*q5_k)(const BlockArgs&, int64_t begin, int64_t end);
  void (*q6_k)(const BlockArgs&, int64_t begin, int64_t end);
  void (*uint4)(const CodeArgs&, int64_t begin, int64_t end);
  void (*mxfp4)(const CodeArgs&, int64_t begin, int64_t end);
  void (*fp8)(const CodeArgs&, int64_t begin, int64_t end);
  void (*unpack_uint4)(const CodeArgs&, int64_t begin, int64_t end, float* out);
  void (*unpack_mxfp4)(const CodeArgs&, int64_t begin, int64_t end, float* out);
  void (*unpack_fp8)(const CodeArgs&, int64_t begin, int64_t end, float* out);
  // Products of integers with one vector; null: there are none.
  void (*split_q4_k)(const BlockArgs&, int64_t begin, int64_t end);
  // x in 16 bits: 256 elements have a scale, and an element is scale * (256 * first digit + second digit). It is off by
  // at most max|x| / 65278 of the 256.
  void (*split_x)(const float* x, int64_t width, int8_t* digits, float* scales);
};
constexpr int64_t kSplitElements = 256;

const BlockKernels& blocks();

// Every table that this machine can run and EASYDEL_CPU allows, widest last.
struct BlockKernelList {
  const BlockKernels* tables[5];
  int count;
};
BlockKernelList blocks_available();

}  // namespace easydel::operations::kernels
