// Devices that are there.
#pragma once

#include <c10/core/Device.h>

namespace easydel {

// NotSupportedError when tensors cannot lie on the device: another kind, a build without CUDA, no such GPU.
void require_device(c10::Device device);

}  // namespace easydel
