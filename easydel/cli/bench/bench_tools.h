// What the benchmarks of the command line measure with.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel::cli {

double seconds();                  // of a clock that only goes on
void wait_for(at::Device device);  // until all that was started is done

at::Tensor random_ids(int64_t batch, int64_t tokens, int64_t vocabulary);

}  // namespace easydel::cli
