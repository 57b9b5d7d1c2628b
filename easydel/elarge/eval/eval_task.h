// A task file of lm-evaluation-harness.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

enum class EvalOutput { Loglikelihood, LoglikelihoodRolling, MultipleChoice, GenerateUntil };

// How a row becomes text: Jinja templates, names of fields, integers, lists.
struct TaskFormat {
  Json doc_to_text, doc_to_target, doc_to_choice;  // null: not given
  Json gen_prefix;                                 // what the answer begins with; null: nothing
  std::string target_delimiter = " ";
  std::string fewshot_delimiter = "\n\n";
};

struct EvalMetric {
  std::string name;  // acc, acc_norm, acc_bytes, perplexity, word_perplexity, byte_perplexity, bits_per_byte, …
  bool higher_is_better = true;
  Json options = Json::object();  // of exact_match: ignore_case, …; of pass_at_k: k
};

// One way to read answers: a name for the results, and what is done to the answers in turn.
struct EvalFilter {
  struct Step {
    std::string function;  // regex, take_first, …
    Json options = Json::object();
  };
  std::string name = "none";
  std::vector<Step> steps = {{"take_first"}};
};

struct EvalTask {
  std::string name, alias;
  std::filesystem::path file;
  EvalOutput output = EvalOutput::MultipleChoice;
  std::string dataset_path;
  Json dataset_kwargs = Json::object();
  std::optional<std::string> training_split, validation_split, test_split, fewshot_split;
  TaskFormat format, fewshot_format;
  std::string description;
  std::string sampler = "default";           // or first_n
  std::optional<std::vector<Json>> samples;  // few-shot examples that stand in the file
  std::optional<int64_t> num_fewshot;
  std::optional<double> limit;
  std::vector<EvalMetric> metrics;
  // Of generate_until.
  Json generation_kwargs = Json::object();  // with until; checked by read_generation
  std::vector<EvalFilter> filters;
  int64_t repeats = 1;       // answers to each row
  bool unsafe_code = false;  // answers are run
  Json version = "Yaml";
  Json config;                       // the keys as they were given, with those of included files
  std::vector<std::string> ignored;  // keys without an effect
  std::map<std::string, std::string> places;

  // "[eval] task.yaml:12: doc_to_text", the beginning of a message about a key.
  std::string where(const std::string& key) const;
};

// IoError when there is no such file, FormatError on what is no YAML, ConfigError on a wrong key or value,
// NotSupportedError on what only the harness can do: Python functions, groups.
EvalTask read_eval_task(const std::filesystem::path& path);

// A path, or NAME for NAME.yaml or NAME.yml in one of the directories. IoError names what was looked at.
std::filesystem::path find_eval_task(const std::string& task, const std::vector<std::filesystem::path>& directories);

}  // namespace easydel
