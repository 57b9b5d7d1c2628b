// Tasks of lm-evaluation-harness on a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/elarge/eval/eval_task.h"

namespace easydel {

class AutoTokenizer;
class BaseModule;

struct EvaluateOptions {
  std::optional<int64_t> num_fewshot;  // absent: each task's; a task that says 0 keeps it
  std::optional<double> limit;         // rows of each task; below 1: their share
  int64_t batch_size = 0;              // 0: by their length; of answers, 256
  int64_t bootstrap_iters = 100000;
  uint64_t fewshot_random_seed = 1234;
  std::string system_instruction;
  bool apply_chat_template = false;
  Json chat_template_args = Json::object();  // variables of the template: enable_thinking, …
  bool fewshot_as_multiturn = false;         // with apply_chat_template: examples are messages of their own
  Json gen_kwargs = Json::object();          // over the generation_kwargs of the tasks
  bool confirm_run_unsafe_code = false;      // else tasks that run what the model wrote are refused
  double code_eval_timeout = 3.0;            // seconds of one program
  std::string model_name;                    // for the results
  bool show_progress = true;
};

// Finds and reads them. ConfigError when two have one name.
std::vector<EvalTask> read_eval_tasks(const std::vector<std::string>& tasks,
                                      const std::vector<std::filesystem::path>& directories);

// ConfigError on options that do not go together, and on tasks that run code unless that is confirmed.
void check_eval_options(const std::vector<EvalTask>& tasks, const EvaluateOptions& options);

// The results, as the harness writes them. On a mesh all ranks call it together; ranks other than 0 get null. Tasks
// that generate do so through an engine, which has the model while they last.
Json evaluate(const std::shared_ptr<BaseModule>& model, const AutoTokenizer& tokenizer,
              const std::vector<EvalTask>& tasks, const EvaluateOptions& options = {});

void write_eval_results(const Json& results, const std::filesystem::path& path);

// Rows of cells: Tasks, Version, Filter (where a task has one), n-shot, Metric, Value, Stderr.
std::vector<std::vector<std::string>> eval_table(const Json& results);

}  // namespace easydel
