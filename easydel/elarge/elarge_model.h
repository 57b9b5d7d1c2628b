// The fluent builder: a model, its data and its trainer in one expression.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/elarge/config/elarge_config.h"

namespace easydel {

class AutoTokenizer;
class BaseModule;
class RunLock;
class Trainer;
struct TrainResult;

namespace serve {
class Engine;
struct EngineOptions;
}  // namespace serve

// {{"learning_rate", 2e-5}, {"num_train_epochs", 3}}
using KeyValues = std::initializer_list<std::pair<std::string_view, Json>>;

struct EvalArguments {
  std::vector<std::string> tasks;           // files, or names of files next to the config or in eval.include_path
  std::optional<int64_t> num_fewshot = {};  // the eval section's, else the task's
  std::filesystem::path output_path = {};
};

// Every setter changes the one config and returns the builder. Wrong keys and values are reported by validate(), and by
// whatever uses them.
class ELargeModel {
 public:
  ELargeModel() = default;
  explicit ELargeModel(ELargeConfig config) : config_(std::move(config)) {}
  explicit ELargeModel(Json config) : config_(std::move(config)) {}

  static ELargeModel from_pretrained(const std::string& name_or_path, const std::string& task = "");
  static ELargeModel from_yaml(const std::filesystem::path& path) { return ELargeModel(ELargeConfig::from_yaml(path)); }
  static ELargeModel from_json(const std::filesystem::path& path) { return ELargeModel(ELargeConfig::from_json(path)); }

  ELargeModel& set_model(const std::string& name_or_path);
  ELargeModel& set_teacher_model(const std::string& name_or_path);
  ELargeModel& set_reference_model(const std::string& name_or_path);
  ELargeModel& set_dtype(const std::string& dtype, const std::string& param_dtype = "");  // param_dtype: dtype
  ELargeModel& set_loader(KeyValues values);
  ELargeModel& set_sharding(const ShardingOptions& options);  // what is not given stays as it was
  ELargeModel& set_quantization(KeyValues values);
  ELargeModel& set_base_config(KeyValues values);  // keys of the model's config
  ELargeModel& set_operation_configs(KeyValues values);
  ELargeModel& set_esurge(KeyValues values);
  ELargeModel& set_mixture(KeyValues values);
  // `max_length`: the trainer's, where it has none.
  ELargeModel& add_dataset(const data::DatasetOptions& dataset, std::optional<int64_t> max_length = {});
  ELargeModel& add_eval_dataset(const data::DatasetOptions& dataset, std::optional<int64_t> max_length = {});
  // set_trainer("sft", {.learning_rate = 2e-5}): what differs from TrainingArguments' own defaults counts; the rest is
  // the default of that trainer. By key: set_trainer("sft", Json::object({{"learning_rate", 2e-5}})).
  ELargeModel& set_trainer(const std::string& trainer_type);
  ELargeModel& set_trainer(const std::string& trainer_type, const TrainingArguments& arguments);
  ELargeModel& set_trainer(const std::string& trainer_type, const Json& values);
  ELargeModel& set_training_arguments(const std::string& trainer_type, const TrainingArguments& arguments);
  ELargeModel& set_eval(KeyValues values);
  ELargeModel& set_serve(KeyValues values);
  ELargeModel& update_config(const Json& changes);

  const ELargeConfig& config() const { return config_; }
  std::string model_name() const { return config_.model().name_or_path; }
  TaskType task() const { return config_.model().task_type(); }
  std::optional<std::string> teacher_model_name() const;
  std::optional<std::string> reference_model_name() const;

  const Json& to_dict() const { return config_.to_dict(); }
  void to_json(const std::filesystem::path& path) const;
  void to_yaml(const std::filesystem::path& path) const;
  void validate() const { config_.validate(); }
  std::string summary() const;  // a few lines: model, dtype, mesh, data, trainer

  // In run_train.cpp. What was built once is kept.
  std::shared_ptr<BaseModule> build_model();
  std::shared_ptr<BaseModule> build_teacher_model();    // null without a teacher_model
  std::shared_ptr<BaseModule> build_reference_model();  // null without a reference_model
  std::shared_ptr<BaseModule> build_reward_model();     // null without a reward_model
  std::shared_ptr<BaseModule> build_value_model();      // of ppo: value_model, else reward_model, else model
  std::shared_ptr<const AutoTokenizer> build_tokenizer();
  TrainingArguments build_training_arguments() const { return config_.training_arguments(); }
  // `lock`: of its save_directory, where the caller has it already.
  std::shared_ptr<Trainer> build_trainer(std::shared_ptr<RunLock> lock = nullptr);
  TrainResult train();
  // Virtual devices that train() and eval() make where nothing has started more than one rank: set_devices()'s, else as
  // many as the mesh has on a CPU; 1 otherwise.
  int64_t devices() const;
  ELargeModel& set_devices(int64_t count);
  // Perplexities and accuracies as lm-evaluation-harness reports them: {"results": {task: {"acc,none": …}}, …}. On
  // ranks that a launcher started, null on all but the first.
  Json eval(const EvalArguments& arguments);
  // Reads the task files, without the model and without the data. Throws what eval() would throw.
  void check_tasks(const EvalArguments& arguments) const;
  // An engine with the model and its tokenizer, by the sections esurge and serve or by these options. It has the model
  // for as long as it lives: train and eval come before or after.
  std::shared_ptr<serve::Engine> build_engine();
  std::shared_ptr<serve::Engine> build_engine(serve::EngineOptions options);
  // Serves by the section serve, with these keys over it, until SIGINT or SIGTERM; false when the engine failed.
  bool serve(const Json& parameters = Json());
  void clear_cache();

 private:
  std::shared_ptr<BaseModule> other_model(const std::string& trainer_type, const TrainingArguments& arguments);
  std::shared_ptr<BaseModule> build_draft_model();  // null without a serve.draft_model
  void announce() const;  // one line: device, types, mesh. ConfigError when the mesh cannot be
  ELargeModel& set_section(const std::string& section, KeyValues values);
  ELargeModel& add_inform(const std::string& section, const data::DatasetOptions& dataset,
                          std::optional<int64_t> max_length);

  ELargeConfig config_;
  std::optional<int64_t> device_count_;
  std::shared_ptr<BaseModule> model_, teacher_model_, reference_model_, reward_model_, value_model_;
  std::shared_ptr<const AutoTokenizer> tokenizer_;
};

}  // namespace easydel
