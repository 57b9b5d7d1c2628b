// Methods that have the layouts of published files.
#pragma once

#include "easydel/quantization/method.h"

namespace easydel::quantization {

std::shared_ptr<const Method> make_fp8(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_mxfp4(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_uint4(const QuantizeOptions& settings);

}  // namespace easydel::quantization
