// The kernels of this machine, for its widest instruction set.
#pragma once

#include <c10/core/ScalarType.h>

#include "easydel/operations/kernels/cpu/kernels.h"

namespace easydel::operations::kernels {

const Kernels& active();
const ElementKernels& for_elements(c10::ScalarType type);  // NotSupportedError unless has_kernels
const AccKernels& for_acc(c10::ScalarType type);           // float64, or float32 for all else

bool has_kernels(c10::ScalarType type);  // float32, float64, bfloat16, float16

// Every table that this machine can run and EASYDEL_CPU allows, widest last.
struct KernelList {
  const Kernels* tables[3];
  int count;
};
KernelList available();

}  // namespace easydel::operations::kernels
