// The CPU kernels for packed weights, as a table of functions for each instruction set.
#pragma once

#include <cstdint>

namespace easydel::operations::kernels {

// The scales of a matrix's groups, `groups` of them for each row.
struct GroupScales {
  enum class Kind : uint8_t { kFloat32, kFloat16, kNested };
  Kind kind = Kind::kFloat32;
  const void* values = nullptr;  // of that type; nested: uint8 indices into `map`
  int64_t groups = 1;
  // A nested scale is map[index] * outer[its index in the full matrix / outer_block] + offset.
  const float* map = nullptr;  // [256]
  const float* outer = nullptr;
  int64_t outer_block = 256;
  float offset = 0;
};

// Four-bit codes are in blocks of 32 weights, 16 bytes: the low nibbles belong to the block's `first` half, the high
// ones to its second, in the order of x. int8 codes are in order.
constexpr int64_t kNibbleBlock = 32;

// With int8 vectors: the sum of a row's products then fits in 32 bits.
constexpr int64_t kLongestRow = 65536;

// y[v, row] = sum over groups of scale[row, group] * (the group's weights . x[v]) + bias[row].
struct PackedArgs {
  const void* codes = nullptr;   // int8 [rows, width] or nibbles [rows, width / 2]
  GroupScales scales;            // int8: one for each row, the value of the code 127
  const float* table = nullptr;  // the values of the 16 nibbles; null: nibble - 8
  const float* bias = nullptr;   // [rows] or null
  float* y = nullptr;            // [vectors, rows], y_row apart
  int64_t width = 0, vectors = 0, y_row = 0;
  const float* x = nullptr;  // [vectors, width]
  // Quantized x instead of x. With int8 codes all groups share the row's scale.
  const int8_t* x_codes = nullptr;    // [vectors, width]
  const float* x_scales = nullptr;    // [vectors, x_groups]
  const int32_t* x_starts = nullptr;  // [vectors, x_groups]; see quantize_rows
  int64_t x_groups = 1;
};

// Quantizes rows of x to int8: each of `groups` groups of a row has the scale max|x| / 127.
struct QuantizeArgs {
  const float* x = nullptr;  // [rows, width]
  int64_t width = 0, groups = 1;
  bool one_scale = false;    // the same for all groups of a row
  bool for_nibbles = false;  // or for int8 codes
  int8_t* codes = nullptr;
  float* scales = nullptr;  // [rows, groups]
  int32_t* starts =
      nullptr;  // [rows, groups]: the initial value of a group's product, which corrects for unsigned codes
};

// Every kernel works on rows [begin, end), to be called from a parallel loop. `scratch` has room for their scales.
struct QuantizedKernels {
  const char* instruction_set;
  int64_t most_vectors;          // with more, unpacking a matrix once and a library's product are faster
  int64_t most_rounded_vectors;  // the same, of nibbles times int8
  void (*int8_times_float)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*nibbles_times_float)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*int8_times_int8)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*nibbles_times_int8)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  // The weights themselves, into dense rows from y on; nibbles of a block in the order low, high.
  void (*unpack_int8)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*unpack_nibbles)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*quantize_rows)(const QuantizeArgs&, int64_t begin, int64_t end);
  // Moves the odd elements of each block of 32 to the front; and back.
  void (*part_pairs)(const float* from, float* to, int64_t count);
  void (*join_pairs)(const float* from, float* to, int64_t count);
};

const QuantizedKernels& quantized();

// Every table that this machine can run and EASYDEL_CPU allows, fastest last.
struct QuantizedKernelList {
  const QuantizedKernels* tables[5];
  int count;
};
QuantizedKernelList quantized_available();

}  // namespace easydel::operations::kernels
