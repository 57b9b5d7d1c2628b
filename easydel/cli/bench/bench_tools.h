// Helpers shared by the `easydel bench` commands.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel::cli {

double seconds();                  // of a monotonic clock
void wait_for(at::Device device);  // until all queued work is done

at::Tensor random_ids(int64_t batch, int64_t tokens, int64_t vocabulary);

}  // namespace easydel::cli
