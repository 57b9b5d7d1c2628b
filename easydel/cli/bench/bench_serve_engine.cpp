// The engine of `easydel bench serve --in-process`: of a model's files, or of random weights.
#include <ATen/Parallel.h>

#include "easydel/cli/bench/bench_serve.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/quantization/quantize.h"
#include "easydel/serve/engine/engine.h"

namespace easydel::cli {
namespace {

std::shared_ptr<BaseModule> make_random_model(const BenchServeOptions& options, const ComputeSettings& compute) {
  const std::unique_ptr<BaseConfig> config = AutoConfig::from_dict(Json::parse_file(options.config));
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize(
      {.dtype = compute.dtype, .param_dtype = compute.param_dtype, .rngs = RandomKey(0), .device = compute.device});
  if (!options.quantize.empty())
    model->quantize({.method = options.quantize, .bit_targeted_params = {"kernel", "embedding"}});
  return model;
}

}  // namespace

BenchEngine make_bench_engine(const BenchServeOptions& options) {
  const ComputeSettings compute = to_compute_settings({.device = options.device, .dtype = options.dtype});
  BenchEngine made;
  std::shared_ptr<BaseModule> model;
  if (options.config.empty()) {
    ModelOptions files;
    files.model = options.model;
    files.task = "causal-lm";
    files.dtype = options.dtype;
    files.device = options.device;
    files.quantize.method = options.quantize;
    model = load(files);
    if (const auto tokenizer = load_tokenizer(files)) made.tokenizer = tokenizer->shared();
  } else {
    model = make_random_model(options, compute);
  }
  made.about = Json::object({{"parameters", model->num_params()},
                             {"parameter_bytes", parameter_bytes(*model)},
                             {"device", compute.device.str()},
                             {"dtype", std::string(dtype_name(compute.dtype))},
                             {"threads", at::get_num_threads()},
                             {"max_num_batched_tokens", options.max_num_batched_tokens}});
  serve::EngineOptions how;
  how.max_num_seqs = options.max_num_seqs;
  how.max_num_batched_tokens = options.max_num_batched_tokens;
  how.enable_prefix_caching = options.prefix_caching;
  how.seed = options.seed;
  made.engine = serve::make_engine(std::move(model), made.tokenizer, how);
  made.about["max_num_seqs"] = made.engine->info().max_num_seqs;
  made.vocab_size = made.engine->info().vocab_size;
  return made;
}

}  // namespace easydel::cli
