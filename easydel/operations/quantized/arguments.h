// Shared by the files that multiply and unpack packed weights.
#pragma once

#include "easydel/operations/kernels/cpu/quantized_kernels.h"
#include "easydel/operations/quantized/packed_product.h"

namespace easydel::operations {

// All but x, y and the bias. The weight was checked.
kernels::PackedArgs arguments_of(const PackedCodes& weight);

// Rows [begin, end) as dense floats, by all threads.
void unpack_into(const PackedCodes& weight, int64_t begin, int64_t end, float* to);

}  // namespace easydel::operations
