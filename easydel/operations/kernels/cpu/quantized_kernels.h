// The CPU kernels for packed weights, as a table of functions: there is one for each instruction set.
#pragma once

#include <cstdint>

namespace easydel::operations::kernels {

// The scales of a matrix's groups, `groups` of them for each row.
struct GroupScales {
  enum class Kind : uint8_t { kFloat32, kFloat16, kNested };
  Kind kind = Kind::kFloat32;
  const void* values = nullptr;  // of that kind; nested: uint8 indices into `map`
  int64_t groups = 1;
  // A nested scale is map[index] * outer[its place in the whole matrix / outer_block] + offset.
  const float* map = nullptr;  // [256]
  const float* outer = nullptr;
  int64_t outer_block = 256;
  float offset = 0;
};

// Four-bit codes lie in blocks of 32 weights, 16 bytes: the low nibbles belong to the block's `first` half, the high
// ones to its second, in the order in which x is given. int8 codes lie in order.
constexpr int64_t kNibbleBlock = 32;

// y[v, row] = sum over groups of scale[row, group] * (the group's weights . x[v]) + bias[row].
struct PackedArgs {
  const void* codes = nullptr;   // int8 [rows, width] or nibbles [rows, width / 2]
  GroupScales scales;            // int8: one for each row, what the code 127 stands for
  const float* table = nullptr;  // what the 16 nibbles stand for
  const float* bias = nullptr;   // [rows] or null
  float* y = nullptr;            // [vectors, rows], y_row apart
  int64_t width = 0, vectors = 0, y_row = 0;
  const float* x = nullptr;  // [vectors, width]
  // With quantized x in place of x. Of int8 codes all groups have the row's one scale.
  const int8_t* x_codes = nullptr;    // [vectors, width]
  const float* x_scales = nullptr;    // [vectors, x_groups]
  const int32_t* x_starts = nullptr;  // [vectors, x_groups]; see quantize_rows
  int64_t x_groups = 1;
};

// How rows of x become int8: each of `groups` groups of a row has the scale max|x| / 127.
struct QuantizeArgs {
  const float* x = nullptr;  // [rows, width]
  int64_t width = 0, groups = 1;
  bool one_scale = false;    // the same for all groups of a row
  bool for_nibbles = false;  // or for int8 codes
  int8_t* codes = nullptr;
  float* scales = nullptr;    // [rows, groups]
  int32_t* starts = nullptr;  // [rows, groups]: what a product of a group starts from, as unsigned codes are too large
};

// Every kernel works on rows [begin, end), to be called from a parallel loop. `scratch` has room for their scales.
struct QuantizedKernels {
  const char* instruction_set;
  void (*int8_times_float)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*nibbles_times_float)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*int8_times_int8)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*nibbles_times_int8)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  // The weights themselves, into dense rows from y on; nibbles of a block in the order low, high.
  void (*unpack_int8)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*unpack_nibbles)(const PackedArgs&, int64_t begin, int64_t end, float* scratch);
  void (*quantize_rows)(const QuantizeArgs&, int64_t begin, int64_t end);
  // In each block of 32 the numbers at odd places come first; and back.
  void (*part_pairs)(const float* from, float* to, int64_t count);
  void (*join_pairs)(const float* from, float* to, int64_t count);
};

const QuantizedKernels& quantized();

// Every table that this machine can run, fastest last.
struct QuantizedKernelList {
  const QuantizedKernels* tables[5];
  int count;
};
QuantizedKernelList quantized_available();

}  // namespace easydel::operations::kernels
