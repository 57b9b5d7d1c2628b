// What nf4 files contain besides codes and scales.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::quantization {

at::Tensor nf4_nested_map();  // [256]: bitsandbytes' dynamic map for the codes of scales

}  // namespace easydel::quantization
