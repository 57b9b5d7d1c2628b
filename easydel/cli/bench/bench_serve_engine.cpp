// The engine of `easydel bench serve --in-process`: of a model's files, or of random weights.
#include <ATen/Parallel.h>

#include "easydel/cli/bench/bench_serve.h"
#include "easydel/cli/bench/bench_tools.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/serve/engine/engine.h"

namespace easydel::cli {
BenchEngine make_bench_engine(const BenchServeOptions& options) {
  const ComputeSettings compute = to_compute_settings({.device = options.device, .dtype = options.dtype});
  BenchEngine made;
  const BenchModel what{options.model, options.config, options.dtype, options.device, options.quantize};
  std::shared_ptr<BaseModule> model = load_or_make(what, compute);
  if (options.config.empty()) {
    ModelOptions files;
    files.model = options.model;
    if (const auto tokenizer = load_tokenizer(files)) made.tokenizer = tokenizer->shared();
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
