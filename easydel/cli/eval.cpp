// easydel eval: perplexity of a model on a text, or its scores on tasks.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/bytes.h"
#include "easydel/elarge/eval/eval_generate.h"
#include "easydel/elarge/eval/evaluate.h"
#include "easydel/trainers/objectives/score.h"

namespace easydel::cli {
namespace {

struct EvalOptions {
  ModelOptions model;
  std::string text;
  int64_t window = 0, stride = 0;  // 0: the context, at most 2048; 0: half of the window
  std::vector<std::string> tasks, include_path;
  std::optional<int64_t> num_fewshot;
  std::optional<double> limit;
  int64_t batch_size = 0;
  std::string system_instruction, gen_kwargs, output;
  bool apply_chat_template = false, fewshot_as_multiturn = false, confirm_run_unsafe_code = false;
  bool json = false;
};

struct Text {
  std::vector<int64_t> ids;
  std::size_t bytes = 0;
};

AutoTokenizer tokenizer_of(const EvalOptions& options) {
  std::optional<AutoTokenizer> tokenizer = load_tokenizer(options.model);
  require<ConfigError>(tokenizer.has_value(), "[easydel eval] ", options.model.model,
                       " has no tokenizer.json or tokenizer.model.");
  return std::move(*tokenizer);
}

Text read_text(const EvalOptions& options) {
  const AutoTokenizer tokenizer = tokenizer_of(options);
  const std::string text = read_file(options.text);
  const std::vector<int32_t> encoded = tokenizer->encode_ids(text);
  require<ConfigError>(encoded.size() >= 2, "[easydel eval] ", options.text, " has ", encoded.size(),
                       " tokens; at least two are needed.");
  return {{encoded.begin(), encoded.end()}, text.size()};
}

void run(const EvalOptions& options, const Text& text, World& world) {
  const std::shared_ptr<BaseModule> model = load(options.model);
  ScoreOptions scoring{.window = options.window, .stride = options.stride};
  try {
    scoring = resolved(scoring, *model);
  } catch (const ConfigError& error) {
    fail<UsageError>("--window and --stride: ", error.what());
  }
  const TextScore result = score_text(*model, text.ids, scoring);
  if (world.rank() != 0) return;
  const double mean = result.nll / static_cast<double>(result.tokens);
  const double bits = result.nll / std::log(2.0) / static_cast<double>(text.bytes);
  if (options.json) {
    return print_json(Json::object({{"tokens", result.tokens},
                                    {"bytes", static_cast<int64_t>(text.bytes)},
                                    {"window", scoring.window},
                                    {"stride", scoring.stride},
                                    {"loss", mean},
                                    {"perplexity", std::exp(mean)},
                                    {"bits_per_byte", bits}}));
  }
  print_table({{"tokens", group_digits(result.tokens)},
               {"loss", concat(mean)},
               {"perplexity", concat(std::exp(mean))},
               {"bits per byte", concat(bits)}});
}

void run_tasks(const EvalOptions& options) {
  const std::vector<EvalTask> tasks =
      read_eval_tasks(options.tasks, {options.include_path.begin(), options.include_path.end()});
  const AutoTokenizer tokenizer = tokenizer_of(options);
  const EvaluateOptions settings{.num_fewshot = options.num_fewshot,
                                 .limit = options.limit,
                                 .batch_size = options.batch_size,
                                 .system_instruction = options.system_instruction,
                                 .apply_chat_template = options.apply_chat_template,
                                 .fewshot_as_multiturn = options.fewshot_as_multiturn,
                                 .gen_kwargs = parse_gen_kwargs(options.gen_kwargs),
                                 .confirm_run_unsafe_code = options.confirm_run_unsafe_code,
                                 .model_name = options.model.model};
  check_eval_options(tasks, settings);
  on_ranks(options.model, [&](World& world) {
    const Json results = evaluate(load(options.model), tokenizer, tasks, settings);
    if (world.rank() != 0) return;
    if (!options.output.empty()) write_eval_results(results, options.output);
    if (options.json) return print_json(results);
    print_table(eval_table(results));
  });
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("eval", "Compute the perplexity of a text, or scores on lm-evaluation-harness tasks");
  auto options = std::make_shared<EvalOptions>();
  options->model.task = "causal-lm";
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  command->remove_option(command->get_option("--task"));  // the model's --task: here it is always causal-lm
  command->add_option("--text", options->text, "Text file to compute the perplexity of");
  command->add_option("--window", options->window, "Tokens per window; 0: the model's context, at most 2048");
  command->add_option("--stride", options->stride, "Tokens between the starts of two windows; 0: half of the window");
  command->add_option("--task", options->tasks, "lm-evaluation-harness task files, instead of --text");
  command->add_option("--include-path", options->include_path, "Directories with task files");
  command
      ->add_option("--num-fewshot", options->num_fewshot,
                   "Few-shot examples before each question (default: the task's)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--limit", options->limit, "Maximum number of rows per task; below 1: a fraction of them")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch-size", options->batch_size, "Rows per batch; 0: automatic, by their length")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--apply-chat-template", options->apply_chat_template,
                    "Format prompts with the model's chat template");
  command->add_flag("--fewshot-as-multiturn", options->fewshot_as_multiturn,
                    "With --apply-chat-template: few-shot examples are separate messages");
  command->add_option("--system-instruction", options->system_instruction,
                      "Text before each prompt, or the system message");
  command->add_option("--gen-kwargs", options->gen_kwargs,
                      "Override generation settings: temperature=0.7,max_gen_toks=64, or a JSON object");
  command->add_flag("--confirm-run-unsafe-code", options->confirm_run_unsafe_code,
                    "Allow tasks that run model-generated code");
  command->add_option("--output", options->output, "Write the task results to this file as JSON");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      help_examples({"eval MODEL --text book.txt", "eval MODEL --task arc_easy.yaml --num-fewshot 5 --limit 100"}));
  command->callback([options] {
    require<UsageError>(options->text.empty() != options->tasks.empty(),
                        "either --text FILE or --task FILE.yaml is required.");
    if (!options->tasks.empty()) return run_tasks(*options);
    const Text text = read_text(*options);
    on_ranks(options->model, [&](World& world) { run(*options, text, world); });
  });
}

}  // namespace easydel::cli
