#include "easydel/cli/bench/bench_tools.h"

#include <ATen/ATen.h>

#include <chrono>

#include "easydel/core/build_info.h"
#include "easydel/core/random.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/quantization/quantize.h"

#if EASYDEL_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace easydel::cli {

std::shared_ptr<BaseModule> load_or_make(const BenchModel& what, const ComputeSettings& compute) {
  if (what.config.empty()) {
    ModelOptions files;
    files.model = what.model;
    files.task = "causal-lm";
    files.dtype = what.dtype;
    files.device = what.device;
    files.quantize.method = what.quantize;
    return load(files);
  }
  const std::unique_ptr<BaseConfig> config = AutoConfig::from_dict(Json::parse_file(what.config));
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize(
      {.dtype = compute.dtype, .param_dtype = compute.param_dtype, .rngs = RandomKey(0), .device = compute.device});
  if (!what.quantize.empty())
    model->quantize({.method = what.quantize, .bit_targeted_params = {"kernel", "embedding"}});
  return model;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void wait_for(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#endif
  (void)device;
}

at::Tensor random_ids(int64_t batch, int64_t tokens, int64_t vocabulary) {
  at::Tensor ids = at::empty({batch, tokens}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(
        RandomKey(0).fold(static_cast<uint64_t>(i)).fold("prompt").bits() % static_cast<uint64_t>(vocabulary));
  return ids;
}

}  // namespace easydel::cli
