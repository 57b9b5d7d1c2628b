// The eval action of an ELargeModel.
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/eval/evaluate.h"
#include "easydel/infra/base_module.h"
#include "easydel/sharding/world/world.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

std::vector<EvalTask> read_tasks(const ELargeConfig& config, const EvalArguments& arguments) {
  std::vector<fs::path> directories;
  if (!config.name().empty()) directories.push_back(fs::path(config.name()).parent_path());
  for (const std::string& path : config.eval().include_path) directories.emplace_back(path);
  std::erase(directories, fs::path());
  return read_eval_tasks(arguments.tasks, directories);
}

EvaluateOptions to_options(const ELargeConfig& config, const EvalArguments& arguments) {
  const EvalSection section = config.eval();
  EvaluateOptions options{.num_fewshot = arguments.num_fewshot ? arguments.num_fewshot : section.num_fewshot,
                          .limit = section.limit,
                          .bootstrap_iters = section.bootstrap_iters,
                          .fewshot_random_seed = static_cast<uint64_t>(section.fewshot_random_seed),
                          .system_instruction = section.system_instruction.value_or(""),
                          .apply_chat_template = section.apply_chat_template,
                          .chat_template_args = section.chat_template_args,
                          .fewshot_as_multiturn = section.fewshot_as_multiturn,
                          .gen_kwargs = section.gen_kwargs,
                          .confirm_run_unsafe_code = section.confirm_run_unsafe_code,
                          .code_eval_timeout = section.code_eval_timeout.value_or(3.0),
                          .model_name = config.model().name_or_path,
                          .show_progress = section.use_tqdm};
  if (section.batch_size.is_int()) options.batch_size = section.batch_size.as_int();
  return options;
}

}  // namespace

void ELargeModel::check_tasks(const EvalArguments& arguments) const {
  check_eval_options(read_tasks(config_, arguments), to_options(config_, arguments));
}

Json ELargeModel::eval(const EvalArguments& arguments) {
  const std::vector<EvalTask> tasks = read_tasks(config_, arguments);
  const EvaluateOptions options = to_options(config_, arguments);
  announce();
  const auto run = [&](ELargeModel& own) {
    return evaluate(own.build_model(), *own.build_tokenizer(), tasks, options);
  };
  Json results;
  if (const int64_t ranks = devices(); ranks > 1) {
    if (config_.has("trainer"))
      log::warning("[elarge] eval reads ", model_name(),
                   " again, without the changes of train, which are only in its checkpoints.");
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
