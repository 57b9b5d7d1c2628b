// The reductions that are compiled for one instruction set.
#pragma once

#include <cstdint>
#include <span>

namespace easydel {

struct ReduceBuffers {
  std::span<const void* const> ins;
  std::span<void* const> outs;
};

using ReduceFunction = void (*)(const ReduceBuffers& buffers, int64_t begin, int64_t end);

struct ReduceFunctions {  // in the order of ReduceOp
  ReduceFunction sum, max, min;
};

struct ReduceTable {
  ReduceFunctions float32, float64, bfloat16, float16;
};

extern const ReduceTable reduce_table_baseline;
extern const ReduceTable reduce_table_avx2;

}  // namespace easydel
