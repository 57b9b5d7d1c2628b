#include "easydel/elarge/eval/eval_task.h"

#include <set>

#include "easydel/core/error.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/elarge/eval/eval_filters.h"
#include "easydel/elarge/eval/eval_metrics.h"
#include "easydel/elarge/yaml/yaml.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

using std::string_view;

constexpr string_view kKeys[] = {"task",           "task_alias",       "dataset_path",      "dataset_name",
                                 "dataset_kwargs", "training_split",   "validation_split",  "test_split",
                                 "fewshot_split",  "doc_to_text",      "doc_to_target",     "doc_to_choice",
                                 "description",    "target_delimiter", "fewshot_delimiter", "fewshot_config",
                                 "num_fewshot",    "metric_list",      "output_type",       "metadata",
                                 "limit",          "gen_prefix"};
constexpr string_view kGenerationKeys[] = {"generation_kwargs", "repeats", "filter_list", "unsafe_code"};
constexpr string_view kIgnored[] = {"tag", "should_decontaminate", "doc_to_decontamination_query"};
// They change nothing about a log-likelihood.
constexpr string_view kIgnoredByScores[] = {"generation_kwargs", "repeats"};
constexpr string_view kNotYet[] = {"custom_dataset", "process_docs", "process_results", "use_prompt",  "doc_to_image",
                                   "doc_to_audio",   "group",        "task_list",       "dataset_name"};
constexpr string_view kFewshotKeys[] = {"sampler",       "split",         "samples",          "doc_to_text",
                                        "doc_to_target", "doc_to_choice", "target_delimiter", "fewshot_delimiter",
                                        "gen_prefix"};
constexpr string_view kFewshotNotYet[] = {"process_docs", "fewshot_indices"};

template <class Names>
std::string hint(const std::string& given, const Names& known) {
  const std::string near = nearest_name(given, known);
  return near.empty() ? "" : concat(" Did you mean \"", near, "\"?");
}

// The keys of a file and of those that it includes: its own win.
void merge_file(const fs::path& path, EvalTask& task, std::set<fs::path>& seen) {
  require<ConfigError>(seen.insert(fs::weakly_canonical(path)).second && seen.size() <= 64, "[eval] ", path.string(),
                       " includes itself.");
  const YamlDocument document = YamlDocument::parse_file(path);
  const Json& given = document.value();
  require<FormatError>(given.is_object(), "[eval] ", path.string(), " must be a mapping of keys; got ",
                       given.type_name(), ".");
  if (const Json* include = given.find("include")) {
    const std::string where = concat("[eval] ", path.string(), ":", document.line({"include"}), ": include");
    require<ConfigError>(include->is_string() || include->is_array(), where, " must be a file or a list of files; got ",
                         include->dump(), ".");
    const Json list = include->is_string() ? Json::array({*include}) : *include;
    for (const Json& file : list.as_array()) {
      require<ConfigError>(file.is_string(), where, " must be a file or a list of files; got ", include->dump(), ".");
      const fs::path other = path.parent_path() / file.as_string();
      require<IoError>(fs::is_regular_file(other), where, ": there is no file ", other.string(), ".");
      merge_file(other, task, seen);
    }
  }
  for (const auto& [key, value] : given.as_object()) {
    if (key == "include") continue;
    task.config[key] = value;
    task.places[key] = concat(path.string(), ":", document.line({key}));
  }
}

// Reads the keys of the merged files.
class TaskReader {
 public:
  explicit TaskReader(EvalTask& task) : task_(task) {}

  void read() {
    read_output();
    check_keys();
    task_.name = text("task").value_or("");
    require<ConfigError>(!task_.name.empty(), task_.where("task"), " is missing; it must be the name of the task.");
    task_.alias = text("task_alias").value_or(task_.name);
    const auto path = text("dataset_path");
    require<ConfigError>(path.has_value(), task_.where("dataset_path"),
                         " is missing; it must be json, csv, parquet, arrow, text or a directory.");
    task_.dataset_path = *path;
    if (const Json* kwargs = find("dataset_kwargs")) {
      require<ConfigError>(kwargs->is_object(), task_.where("dataset_kwargs"), " must be a mapping; got ",
                           kwargs->dump(), ".");
      task_.dataset_kwargs = *kwargs;
    }
    task_.training_split = text("training_split");
    task_.validation_split = text("validation_split");
    task_.test_split = text("test_split");
    task_.fewshot_split = text("fewshot_split");
    require<ConfigError>(task_.test_split || task_.validation_split, task_.where("test_split"),
                         " is missing, and so is validation_split; one of them is required.");
    task_.description = text("description").value_or("");
    task_.format = read_format();
    task_.fewshot_format = task_.format;
    read_fewshot();
    task_.num_fewshot = number("num_fewshot");
    if (const Json* limit = find("limit")) {
      require<ConfigError>(limit->is_number() && limit->as_double() > 0, task_.where("limit"),
                           " must be a number above 0; got ", limit->dump(), ".");
      task_.limit = limit->as_double();
    }
    if (generates()) read_generation_keys();
    task_.metrics = read_metrics(task_, find("metric_list"));
    if (const Json* metadata = find("metadata"); metadata && metadata->find("version"))
      task_.version = metadata->at("version");
  }

 private:
  const Json* find(const std::string& key) const {
    const Json* found = task_.config.find(key);
    return found && !found->is_null() ? found : nullptr;
  }

  bool generates() const { return task_.output == EvalOutput::GenerateUntil; }

  void check_keys() {
    for (const auto& [key, value] : task_.config.as_object()) {
      if (among(key, kNotYet) && asks(value)) {
        fail<NotSupportedError>(task_.where(key), " is an lm-evaluation-harness key that is not supported here.");
      }
      const bool has_no_effect = among(key, kIgnored) || (!generates() && among(key, kIgnoredByScores));
      if (has_no_effect) task_.ignored.push_back(key);
      if (among(key, kGenerationKeys)) {
        require<NotSupportedError>(generates() || has_no_effect || !asks(value), task_.where(key),
                                   " is supported with output_type: generate_until only.");
        continue;
      }
      require<ConfigError>(has_no_effect || among(key, kKeys) || among(key, kNotYet), task_.where(key),
                           " is not a key of a task.", hint(key, kKeys));
    }
  }

  void read_generation_keys() {
    if (const Json* kwargs = find("generation_kwargs")) {
      require<ConfigError>(kwargs->is_object(), task_.where("generation_kwargs"), " must be a mapping; got ",
                           kwargs->dump(), ".");
      task_.generation_kwargs = *kwargs;
    }
    if (!task_.generation_kwargs.contains("until"))
      task_.generation_kwargs["until"] = Json::array({task_.format.fewshot_delimiter});
    task_.repeats = number("repeats").value_or(1);
    require<ConfigError>(task_.repeats > 0, task_.where("repeats"), " must be above 0; got ", task_.repeats, ".");
    if (const Json* unsafe = find("unsafe_code")) {
      require<ConfigError>(unsafe->is_bool(), task_.where("unsafe_code"), " must be true or false; got ",
                           unsafe->dump(), ".");
      task_.unsafe_code = unsafe->as_bool();
    }
    task_.filters = read_filters(task_, find("filter_list"));
  }

  std::optional<std::string> text(const std::string& key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    require<ConfigError>(value->is_string(), task_.where(key), " must be a string; got ", value->dump(), ".");
    return value->as_string();
  }

  std::optional<int64_t> number(const std::string& key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    require<ConfigError>(value->is_int() && value->as_int() >= 0, task_.where(key),
                         " must be an integer that is not negative; got ", value->dump(), ".");
    return value->as_int();
  }

  void read_output() {
    const std::string type = text("output_type").value_or("generate_until");
    if (type == "multiple_choice") {
      task_.output = EvalOutput::MultipleChoice;
    } else if (type == "loglikelihood") {
      task_.output = EvalOutput::Loglikelihood;
    } else if (type == "loglikelihood_rolling") {
      task_.output = EvalOutput::LoglikelihoodRolling;
    } else {
      require<ConfigError>(type == "generate_until", task_.where("output_type"),
                           " must be multiple_choice, loglikelihood, loglikelihood_rolling or generate_until; got \"",
                           type, "\".");
      task_.output = EvalOutput::GenerateUntil;
    }
  }

  static void check_format(const Json& value, const std::string& where, const std::string& key) {
    const bool is_choice = key == "doc_to_choice", is_target = key == "doc_to_target";
    const bool right = value.is_string() || (value.is_int() && !is_choice) ||
                       (value.is_array() && (is_choice || is_target)) || (value.is_object() && is_choice);
    require<ConfigError>(right, where, " must be a template, the name of a field, ",
                         is_choice   ? "a list or a mapping"
                         : is_target ? "an integer or a list"
                                     : "or an integer",
                         "; got ", value.dump(), ".");
  }

  TaskFormat read_format() const {
    TaskFormat format;
    const auto take = [&](const std::string& key, Json& value) {
      if (const Json* given = find(key)) {
        check_format(*given, task_.where(key), key);
        value = *given;
      }
    };
    take("doc_to_text", format.doc_to_text);
    take("doc_to_target", format.doc_to_target);
    take("doc_to_choice", format.doc_to_choice);
    if (const auto prefix = text("gen_prefix"); prefix && !prefix->empty()) format.gen_prefix = *prefix;
    const bool rolling = task_.output == EvalOutput::LoglikelihoodRolling;
    require<ConfigError>(rolling || !format.doc_to_text.is_null(), task_.where("doc_to_text"), " is missing.");
    require<ConfigError>(!format.doc_to_target.is_null(), task_.where("doc_to_target"), " is missing.");
    require<ConfigError>(task_.output != EvalOutput::MultipleChoice || !format.doc_to_choice.is_null(),
                         task_.where("doc_to_choice"), " is missing: multiple_choice needs the choices of a row.");
    if (format.doc_to_text.is_null()) format.doc_to_text = "";
    format.target_delimiter = text("target_delimiter").value_or(" ");
    format.fewshot_delimiter = text("fewshot_delimiter").value_or("\n\n");
    return format;
  }

  void read_fewshot() {
    const Json* config = find("fewshot_config");
    if (!config) return;
    const std::string where = task_.where("fewshot_config");
    require<ConfigError>(config->is_object(), where, " must be a mapping; got ", config->dump(), ".");
    for (const auto& [key, value] : config->as_object()) {
      if (value.is_null()) continue;
      const std::string at = where + "." + key;
      require<NotSupportedError>(!among(key, kFewshotNotYet), at,
                                 " is an lm-evaluation-harness key that is not supported here.");
      require<ConfigError>(among(key, kFewshotKeys), at, " is not a key of fewshot_config.", hint(key, kFewshotKeys));
      if (key == "samples") {
        require<ConfigError>(value.is_array() && value.size() > 0, at, " must be a list of rows; got ", value.dump(),
                             ".");
        for (const Json& row : value.as_array())
          require<ConfigError>(row.is_object(), at, " must be a list of rows; got ", row.dump(), " among them.");
        task_.samples = value.as_array();
        continue;
      }
      if (key.starts_with("doc_to_")) {
        check_format(value, at, key);
        (key == "doc_to_text"     ? task_.fewshot_format.doc_to_text
         : key == "doc_to_target" ? task_.fewshot_format.doc_to_target
                                  : task_.fewshot_format.doc_to_choice) = value;
        continue;
      }
      require<ConfigError>(value.is_string(), at, " must be a string; got ", value.dump(), ".");
      const std::string& given = value.as_string();
      if (key == "sampler") {
        require<NotSupportedError>(given == "default" || given == "first_n", at, " must be default or first_n; got \"",
                                   given, "\".");
        task_.sampler = given;
      } else if (key == "split") {
        task_.fewshot_split = given;
      } else if (key == "gen_prefix") {
        task_.fewshot_format.gen_prefix = given.empty() ? Json() : Json(given);
      } else {
        (key == "target_delimiter" ? task_.fewshot_format.target_delimiter : task_.fewshot_format.fewshot_delimiter) =
            given;
      }
    }
  }

  EvalTask& task_;
};

}  // namespace

std::string EvalTask::where(const std::string& key) const {
  const auto found = places.find(key);
  return concat("[eval] ", found == places.end() ? file.string() : found->second, ": ", key);
}

EvalTask read_eval_task(const fs::path& path) {
  EvalTask task;
  task.file = path;
  task.config = Json::object();
  require<IoError>(fs::is_regular_file(path), "[eval] there is no task file ", path.string(), ".");
  std::set<fs::path> seen;
  merge_file(path, task, seen);
  TaskReader(task).read();
  return task;
}

fs::path find_eval_task(const std::string& task, const std::vector<fs::path>& directories) {
  require<ConfigError>(!task.empty(), "[eval] a task has no name.");
  const bool is_file = task.ends_with(".yaml") || task.ends_with(".yml") || task.ends_with(".json");
  std::string looked;
  std::vector<fs::path> places = {""};
  places.insert(places.end(), directories.begin(), directories.end());
  for (const fs::path& directory : places) {
    for (const std::string end : {"", ".yaml", ".yml"}) {
      if (is_file != end.empty()) continue;
      const fs::path path = directory / (task + end);
      if (fs::is_regular_file(path)) return path;
    }
    looked += concat(looked.empty() ? "" : ", ", directory.empty() ? "the working directory" : directory.string());
  }
  fail<IoError>("[eval] there is no task file \"", task, is_file ? "" : ".yaml", "\"; looked in ", looked,
                ". The tasks of lm-evaluation-harness are not built in: give a file.");
}

}  // namespace easydel
