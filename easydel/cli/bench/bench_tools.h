// Helpers shared by the `easydel bench` commands.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "easydel/cli/options/model_options.h"

namespace easydel::cli {

// What is measured: a model's files, or random weights of a config.
struct BenchModel {
  std::string model, config, dtype, device, quantize;
};
std::shared_ptr<BaseModule> load_or_make(const BenchModel& what, const ComputeSettings& compute);

double seconds();                  // of a monotonic clock
void wait_for(at::Device device);  // until all queued work is done

at::Tensor random_ids(int64_t batch, int64_t tokens, int64_t vocabulary);

}  // namespace easydel::cli
