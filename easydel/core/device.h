// Available devices.
#pragma once

#include <c10/core/Device.h>

namespace easydel {

// NotSupportedError when tensors cannot be placed on the device: unsupported type, a build without CUDA, no such GPU.
void require_device(c10::Device device);

}  // namespace easydel
