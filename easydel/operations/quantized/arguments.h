// Shared by the files that multiply and unpack packed weights.
#pragma once

#include <vector>

#include "easydel/operations/kernels/cpu/block_kernels.h"
#include "easydel/operations/kernels/cpu/quantized_kernels.h"
#include "easydel/operations/quantized/block_product.h"
#include "easydel/operations/quantized/packed_product.h"

namespace easydel::operations {

// All but x, y and the bias. The weight was checked.
kernels::PackedArgs arguments_of(const PackedCodes& weight);

// One vector as the kernels of blocks read it, in memory that is used again.
class BlockInput {
 public:
  // x must stay where it is.
  void read(const float* x, int64_t width);
  void put_into(kernels::BlockArgs& args) const;

 private:
  const float* x_ = nullptr;
  bool is_split_ = false;
  std::vector<float> sums_, scales_;
  std::vector<int8_t> digits_;
};
// The kernel for what the arguments have.
using BlockKernel = decltype(kernels::BlockKernels::q8_0);
BlockKernel block_kernel(BlockFormat format, const kernels::BlockArgs& args);

// Rows [begin, end) as dense floats, by all threads.
void unpack_into(const PackedCodes& weight, int64_t begin, int64_t end, float* to);

}  // namespace easydel::operations
