// The eval action of an ELargeModel.
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/evaluate.h"
#include "easydel/infra/base_module.h"
#include "easydel/sharding/world.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

std::vector<EvalTask> read_tasks(const ELargeConfig& config, const EvalArguments& arguments) {
  std::vector<fs::path> directories;
  if (!config.name().empty()) directories.push_back(fs::path(config.name()).parent_path());
  for (const std::string& path : config.eval().include_path.values) directories.emplace_back(path);
  std::erase(directories, fs::path());
  return read_eval_tasks(arguments.tasks, directories);
}

EvaluateOptions to_options(const ELargeConfig& config, const EvalArguments& arguments) {
  const EvalSection section = config.eval();
  const auto where = [&](const char* key) { return config.where({"eval", key}); };
  const Json& chat = section.apply_chat_template;
  require<NotSupportedError>(chat.is_null() || chat == Json(false), where("apply_chat_template"),
                             " is not supported yet; got ", chat.dump(), ".");
  EvaluateOptions options{.num_fewshot = arguments.num_fewshot ? arguments.num_fewshot : section.num_fewshot,
                          .limit = section.limit,
                          .bootstrap_iters = section.bootstrap_iters,
                          .fewshot_random_seed = static_cast<uint64_t>(section.fewshot_random_seed),
                          .system_instruction = section.system_instruction.value_or(""),
                          .model_name = config.model().name_or_path,
                          .show_progress = section.use_tqdm};
  require<ConfigError>(options.num_fewshot.value_or(0) >= 0, where("num_fewshot"), " must not be negative; got ",
                       options.num_fewshot.value_or(0), ".");
  require<ConfigError>(section.fewshot_random_seed >= 0, where("fewshot_random_seed"), " must not be negative; got ",
                       section.fewshot_random_seed, ".");
  require<ConfigError>(!section.limit || *section.limit > 0, where("limit"), " must be above 0; got ",
                       section.limit.value_or(0), ".");
  require<ConfigError>(section.bootstrap_iters >= 0 && section.bootstrap_iters <= 10'000'000, where("bootstrap_iters"),
                       " must be from 0 to 10000000; got ", section.bootstrap_iters, ".");
  const Json& batch = section.batch_size;
  const bool is_auto = batch.is_null() || (batch.is_string() && batch.as_string().starts_with("auto"));
  require<ConfigError>(is_auto || (batch.is_int() && batch.as_int() > 0), where("batch_size"),
                       " must be a number above 0 or \"auto\"; got ", batch.dump(), ".");
  if (!is_auto) options.batch_size = batch.as_int();
  return options;
}

}  // namespace

void ELargeModel::check_tasks(const EvalArguments& arguments) const {
  read_tasks(config_, arguments);
  to_options(config_, arguments);
}

Json ELargeModel::eval(const EvalArguments& arguments) {
  const std::vector<EvalTask> tasks = read_tasks(config_, arguments);
  const EvaluateOptions options = to_options(config_, arguments);
  const auto run = [&](ELargeModel& own) {
    return evaluate(*own.build_model(), *own.build_tokenizer(), tasks, options);
  };
  Json results;
  if (const int64_t ranks = devices(); ranks > 1) {
    if (config_.has("trainer"))
      log::warning("[elarge] eval reads ", model_name(), " anew: what train changed is in its checkpoints alone.");
    run_ranks(ranks, [&](World& world) {
      ELargeModel own(config_);
      Json mine = run(own);
      if (world.rank() == 0) results = std::move(mine);
    });
  } else {
    results = run(*this);
  }
  if (!arguments.output_path.empty() && !results.is_null()) write_eval_results(results, arguments.output_path);
  return results;
}

}  // namespace easydel
