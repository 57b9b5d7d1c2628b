// What an ELargeModel builds and runs.
#include <ATen/ATen.h>

#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/data/dataset.h"
#include "easydel/elarge/config/trained_task.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/memory_plan.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/io/hub/hub.h"
#include "easydel/sharding/world/world.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objectives/policy_objective.h"
#include "easydel/trainers/run/run_lock.h"
#include "easydel/trainers/trainer.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// A config file has no weights: they are drawn.
bool is_config_file(const std::string& name) { return name.ends_with(".json") && fs::is_regular_file(name); }

// The directory of a model's tokenizer; empty if there is none next to its files.
fs::path tokenizer_directory(const ModelSection& model) {
  if (!model.tokenizer && is_config_file(model.name_or_path)) {
    const fs::path beside = fs::absolute(model.name_or_path).parent_path();
    return AutoTokenizer::is_in(beside) ? beside : fs::path();
  }
  const std::string name = model.tokenizer.value_or(model.name_or_path);
  const fs::path directory = fs::is_directory(name)
                                 ? fs::path(name)
                                 : resolve(name, {.revision = model.tokenizer ? "main" : model.revision()});
  return model.tokenizer || AutoTokenizer::is_in(directory) ? directory : fs::path();
}

// What the trainer needs of the model's config where nobody said it: a reward is one number, and so is a value.
void add_labels(const ELargeConfig& config, TaskType task, Json& changes) {
  const std::string type = config.trainer_type();
  if (changes.contains("num_labels") || changes.contains("id2label")) return;
  if (type == "prm") changes["num_labels"] = 2;
  if (type == "reward" || (type == "ppo" && task == TaskType::SequenceClassification)) changes["num_labels"] = 1;
  if (const auto count = config.training_arguments().classification.num_labels; count && type == "classification")
    changes["num_labels"] = *count;
}

std::shared_ptr<const AutoTokenizer> open_tokenizer(const fs::path& directory, const ModelSection& model) {
  return std::make_shared<const AutoTokenizer>(
      directory.empty()
          ? AutoTokenizer::absent(concat(
                "[tokenizer] there is no tokenizer in the directory of ", model.name_or_path,
                ", and rows of text need one. Give it with --tokenizer (model.tokenizer), or use rows of input_ids."))
          : AutoTokenizer::from_directory(directory));
}

// The one that rows are tokenized with, and that checkpoints get.
fs::path training_tokenizer(const ELargeConfig& config) {
  ModelSection model = config.model();
  const auto tokenization = config.mixture().tokenization;
  if (tokenization && tokenization->tokenizer) model.tokenizer = tokenization->tokenizer;
  return tokenizer_directory(model);
}

// Where the processor of a model's images is; empty for a model of texts.
fs::path processor_directory(const ELargeConfig& config, const BaseModule& model) {
  const ModelSection section = config.model();
  const TaskType task = model.model_task();
  const bool sees = task == TaskType::ImageTextToText || task == TaskType::ZeroShotImageClassification;
  if (model.main_input_name() == "input_ids" && !sees) return {};
  if (is_config_file(section.name_or_path)) return fs::absolute(section.name_or_path).parent_path();
  return resolve(section.name_or_path, {.revision = section.revision()});
}

// Weights that are drawn, of a config without files.
std::shared_ptr<BaseModule> draw_model(const ELargeConfig& config, const ModelSection& section, TaskType task,
                                       const Json& changes, bool spread) {
  require<NotSupportedError>(config.quantization().weights.method.empty(), config.where({"quantization"}),
                             " needs a model with weights; got ", section.name_or_path, ", whose weights are random.");
  const ComputeSettings compute = config.compute();
  const auto parsed = AutoConfig::for_task(task, section.name_or_path, {.overrides = changes});
  if (World::current()->rank() == 0)
    log::info("[elarge] ", section.name_or_path, " is only a config: the weights are initialized randomly.");
  const auto module = Registry::instance().make_module(*parsed, task);
  const ModuleOptions options{.dtype = compute.dtype,
                              .param_dtype = compute.param_dtype,
                              .precision = parse_precision(config.loader().precision.value_or("")),
                              .rngs = RandomKey(static_cast<uint64_t>(config.training_arguments().seed)),
                              .device = compute.device};
  module->set_options(options);
  if (spread) place_parameters(*module, {}, World::current());
  module->initialize(options);
  return module;
}

std::shared_ptr<BaseModule> load(const ELargeConfig& config, const std::string& name, const ModelSection& section,
                                 TaskType task, bool is_trained) {
  const LoaderSection loader = config.loader();
  const ComputeSettings compute = config.compute();
  const QuantizeOptions packing = config.quantization().weights;
  const bool spread = config.sharding().auto_shard_model.value_or(true) && World::current()->size() > 1;
  Json changes = config.config_kwargs(section);
  if (is_trained && config.has("trainer")) {
    add_labels(config, task, changes);
    if (const auto policy = config.training_arguments().gradient_checkpointing)
      changes["gradient_checkpointing"] = *policy;
  }
  require<ConfigError>(section.revision() == "main" || !fs::exists(section.name_or_path),
                       config.where({name, "extra_kwargs", "revision"}), " applies only to models on the hub; got \"",
                       section.revision(), "\" for ", section.name_or_path, ", which is a local path.");
  std::shared_ptr<BaseModule> module;
  if (is_trained && config.has("trainer")) {
    if (const auto policy = checkpointing_by_memory(config, section, task, changes, spread))
      changes["gradient_checkpointing"] = *policy;
  }
  config.located({{name, "extra_kwargs"}, {"base_config", "values"}, {"quantization"}, {"sharding"}}, {}, [&] {
    if (is_config_file(section.name_or_path)) {
      module = draw_model(config, section, task, changes, spread);
      return;
    }
    module = load_model(section.name_or_path, task,
                        {.device = compute.device,
                         .dtype = compute.dtype,
                         .param_dtype = compute.param_dtype,
                         .precision = loader.precision.value_or(""),
                         .sharding = {.auto_shard_model = spread},
                         .config_kwargs = changes,
                         .quantization_config = packing.method.empty() ? std::nullopt : std::optional(packing),
                         .revision = section.revision(),
                         .verbose = loader.verbose});
  });
  return module;
}

TaskType task_of(const ELargeConfig& config) {
  if (!config.has("trainer")) return config.model().task_type();
  TaskType task = TaskType::AutoBind;
  config.located({{"model", "extra_kwargs"}}, {}, [&] { task = trained_task(config.trainer_type(), config.model()); });
  return task;
}

std::shared_ptr<const data::Dataset> open_mixture(const ELargeConfig& config, const std::string& name,
                                                  const MixtureSection& section, const TrainingArguments& arguments,
                                                  bool shuffle) {
  data::MixtureOptions options = section;
  for (data::DatasetOptions& inform : options.informs) {
    if (section.tokens_field_name == "tokens") continue;  // what the trainers call it
    inform.format_fields[section.tokens_field_name] = "tokens";
    if (inform.content_field == section.tokens_field_name) inform.content_field = "tokens";
  }
  if (!shuffle) options.shuffle_buffer_size.reset();
  options.seed = static_cast<uint64_t>(arguments.shuffle_seed_train);
  std::shared_ptr<const data::Dataset> dataset;
  std::vector<YamlPath> places{{name}};
  for (std::size_t i = 0; i < section.informs.size(); ++i) places.push_back({name, "informs", std::to_string(i)});
  config.located(places, config.name().empty() ? YamlPath{} : YamlPath{name, "informs"},
                 [&] { dataset = data::Dataset::open(options); });
  return dataset;
}

}  // namespace

int64_t ELargeModel::devices() const {
  if (World::current()->size() > 1) return 1;
  if (device_count_) return *device_count_;
  if (!config_.compute().device.is_cpu()) return 1;
  const ShardingSection sharding = config_.sharding();
  int64_t product = 1;
  for (const auto& sizes : {sharding.axis_dims, sharding.dcn_axis_dims}) {
    for (const int64_t size : sizes) product *= std::max<int64_t>(size, 1);  // a -1 is all that there are: one
  }
  return product;
}

ELargeModel& ELargeModel::set_devices(int64_t count) {
  require<ConfigError>(count >= 1, "[elarge] devices must be at least 1; got ", count, ".");
  device_count_ = count;
  return *this;
}

void ELargeModel::announce() const {
  const ShardingSection sharding = config_.sharding();
  Mesh mesh;
  config_.located({{"sharding"}}, {"sharding", "axis_dims"}, [&] {
    mesh = create_mesh({.axis_dims = sharding.axis_dims,
                        .axis_names = sharding.axis_names,
                        .dcn_axis_dims = sharding.dcn_axis_dims,
                        .device_count = std::max(World::current()->size(), devices())});
  });
  if (World::current()->rank() == 0) log::info(describe(config_.compute(), mesh));
}

std::shared_ptr<BaseModule> ELargeModel::build_model() {
  if (!model_) model_ = load(config_, "model", config_.model(), task_of(config_), /*is_trained=*/true);
  return model_;
}

std::shared_ptr<BaseModule> ELargeModel::build_teacher_model() {
  if (const auto section = config_.teacher_model(); section && !teacher_model_)
    teacher_model_ = load(config_, "teacher_model", *section, TaskType::CausalLM, false);
  return teacher_model_;
}

std::shared_ptr<BaseModule> ELargeModel::build_draft_model() {
  const auto name = config_.serve().draft_model;
  if (!name) return nullptr;
  return load(config_, "model", {.name_or_path = *name}, TaskType::CausalLM, false);
}

std::shared_ptr<BaseModule> ELargeModel::build_reference_model() {
  if (const auto section = config_.reference_model(); section && !reference_model_)
    reference_model_ = load(config_, "reference_model", *section, TaskType::CausalLM, false);
  return reference_model_;
}

std::shared_ptr<BaseModule> ELargeModel::build_reward_model() {
  if (const auto section = config_.reward_model(); section && !reward_model_)
    reward_model_ = load(config_, "reward_model", *section, TaskType::SequenceClassification, false);
  return reward_model_;
}

std::shared_ptr<BaseModule> ELargeModel::build_value_model() {
  if (value_model_) return value_model_;
  const auto given = config_.value_model(), reward = config_.reward_model();
  const std::string name = given ? "value_model" : reward ? "reward_model" : "model";
  const ModelSection section = given ? *given : reward ? *reward : config_.model();
  return value_model_ = load(config_, name, section, TaskType::SequenceClassification, /*is_trained=*/true);
}

std::shared_ptr<const AutoTokenizer> ELargeModel::build_tokenizer() {
  if (!tokenizer_) tokenizer_ = open_tokenizer(tokenizer_directory(config_.model()), config_.model());
  return tokenizer_;
}

// The second model that an objective needs. Without a reference_model it is the model as it was at the beginning.
std::shared_ptr<BaseModule> ELargeModel::other_model(const std::string& trainer_type,
                                                     const TrainingArguments& arguments) {
  if (has_teacher(trainer_type)) {
    require<ConfigError>(config_.teacher_model().has_value(), "[elarge] ", trainer_type, " needs a teacher_model.");
    return build_teacher_model();
  }
  const bool is_given = config_.reference_model().has_value();
  if (trainer_type == "dpo") {
    if (!arguments.dpo.uses_reference()) return nullptr;
    // The trainer computes its log-probabilities ahead with the model itself.
    if (!is_given && arguments.dpo.precompute_ref_log_probs) return nullptr;
  } else if (learns_from_rewards(trainer_type)) {
    const double beta = prefers_own_samples(trainer_type) ? arguments.online.beta
                        : trainer_type == "rloo"          ? arguments.rloo.beta
                        : trainer_type == "ppo"           ? arguments.ppo.kl_coef
                                                          : arguments.grpo.beta;
    if (beta == 0) return nullptr;
  } else if (trainer_type != "kto" && trainer_type != "bco") {
    return nullptr;
  }
  // With adapters the base is the reference: the model without them.
  if (!is_given && arguments.lora_rank) return nullptr;
  if (!is_given) reference_model_ = load(config_, "model", config_.model(), TaskType::CausalLM, false);
  return build_reference_model();
}

std::shared_ptr<Trainer> ELargeModel::build_trainer(std::shared_ptr<RunLock> lock) {
  config_.validate();
  TrainerOptions run;
  run.lock = std::move(lock);
  run.trainer_type = config_.trainer_type();
  run.arguments = config_.training_arguments();
  const MixtureSection mixture = config_.mixture();
  run.rows = {.prefetch_workers = mixture.prefetch_workers,
              .prefetch_buffer_size = mixture.prefetch_buffer_size,
              .pad_to_max_length = mixture.tokenization && mixture.tokenization->pads_to_max_length()};
  run.train_dataset = open_mixture(config_, "mixture", mixture, run.arguments, run.arguments.shuffle_train_dataset);
  if (const auto eval = config_.eval_mixture())
    run.eval_dataset = open_mixture(config_, "eval_mixture", *eval, run.arguments, false);
  run.tokenizer_directory = training_tokenizer(config_);
  run.tokenizer = open_tokenizer(run.tokenizer_directory, config_.model());
  run.model = build_model();
  std::shared_ptr<BaseModule> other = other_model(run.trainer_type, run.arguments);
  run.objective =
      learns_from_rewards(run.trainer_type)
          ? make_policy_objective(run.trainer_type,
                                  {.reference = std::move(other),
                                   .reward_model = build_reward_model(),
                                   .value_model = run.trainer_type == "ppo" ? build_value_model() : nullptr})
          : make_objective(run.trainer_type, std::move(other),
                           {.model = run.model.get(), .files = processor_directory(config_, *run.model)});
  run.run_config = config_.normalized();
  std::shared_ptr<Trainer> trainer;
  config_.located({{"trainer"}}, {}, [&] { trainer = std::make_shared<Trainer>(std::move(run)); });
  return trainer;
}

TrainResult ELargeModel::train() {
  config_.validate();
  announce();
  // Before anything is loaded: a directory that is taken is refused at once.
  std::shared_ptr<RunLock> lock;
  if (const auto directory = config_.training_arguments().save_directory; directory && World::current()->rank() == 0)
    lock = std::make_shared<RunLock>(*directory);
  const int64_t ranks = devices();
  if (ranks == 1) return build_trainer(std::move(lock))->train();
  TrainResult result;
  run_ranks(ranks, [&](World& world) {
    ELargeModel own(config_);
    TrainResult mine = own.build_trainer(world.rank() == 0 ? lock : nullptr)->train();
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

void ELargeModel::clear_cache() {
  model_.reset();
  teacher_model_.reset();
  reference_model_.reset();
  reward_model_.reset();
  value_model_.reset();
  tokenizer_.reset();
}

}  // namespace easydel
