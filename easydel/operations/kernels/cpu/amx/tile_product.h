// Products with packed weights on CPUs with AMX. A code of 8 or 4 bits is a bfloat16 without rounding, and a float32 is
// the sum of three bfloat16, so the tiles' products of bfloat16 are as exact as those of float32.
#pragma once

#include <cstdint>

namespace easydel::operations::kernels {

constexpr int64_t kTileDepth = 32;    // columns of a weight row that one step multiplies
constexpr int64_t kTilePanel = 32;    // weight rows that are multiplied at a time
constexpr int64_t kTileVectors = 32;  // and vectors; 16 if there are no more

// Vectors of a block, and the bfloat16 that its parts of x take.
inline int64_t tile_block(int64_t vectors) { return vectors <= 16 ? 16 : kTileVectors; }
inline int64_t tile_block_size(int64_t vectors, int64_t width) { return 3 * tile_block(vectors) * width; }

struct TileProduct {
  const void* codes = nullptr;  // int8 [rows, width], or nibbles [rows, width / 2] that mean nibble - 8
  bool are_nibbles = false;
  const float* scales = nullptr;  // [rows, groups]; int8: for the code 127
  int64_t groups = 1;
  const float* bias = nullptr;      // [rows] or null
  const uint16_t* parts = nullptr;  // x, as split_for_tiles writes it
  float* y = nullptr;               // [vectors, rows], y_row apart
  int64_t rows = 0, width = 0, vectors = 0, y_row = 0;
};

struct TileKernels {
  // The parts of x [vectors, width] for block `block` of vectors.
  void (*split)(const float* x, int64_t vectors, int64_t width, int64_t block, uint16_t* parts);
  // Rows [begin, end) of the weights, on the calling thread; begin is a multiple of kTilePanel. `panels` has room for
  // these rows, rounded up to whole panels, as bfloat16.
  void (*multiply)(const TileProduct&, int64_t begin, int64_t end, uint16_t* panels);
};

const TileKernels* tile_kernels();  // null where the CPU has no AMX, or EASYDEL_CPU names a lower kind

}  // namespace easydel::operations::kernels
