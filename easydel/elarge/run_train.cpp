// What an ELargeModel builds and runs.
#include <ATen/ATen.h>

#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/data/dataset.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/mixture_options.h"
#include "easydel/infra/auto_config.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/registry.h"
#include "easydel/io/hub.h"
#include "easydel/sharding/world.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/run_lock.h"
#include "easydel/trainers/trainer.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

at::Device device_of(const LoaderSection& loader) {
  return at::Device(loader.device.value_or(at::hasCUDA() ? "cuda" : "cpu"));
}

// A config file has no weights: they are drawn.
bool is_config_file(const std::string& name) { return name.ends_with(".json") && fs::is_regular_file(name); }

// Where the tokenizer of a model lies; empty: beside its files there is none.
fs::path tokenizer_directory(const ModelSection& model) {
  if (!model.tokenizer && is_config_file(model.name_or_path)) {
    const fs::path beside = fs::absolute(model.name_or_path).parent_path();
    return AutoTokenizer::is_in(beside) ? beside : fs::path();
  }
  const std::string name = model.tokenizer.value_or(model.name_or_path);
  const fs::path directory = fs::is_directory(name) ? fs::path(name) : resolve(name, {});
  return model.tokenizer || AutoTokenizer::is_in(directory) ? directory : fs::path();
}

// What the trainer needs of the model's config where nobody said it: a reward is one number.
void add_labels(const ELargeConfig& config, Json& changes) {
  const std::string type = config.trainer_type();
  if (changes.contains("num_labels") || changes.contains("id2label")) return;
  if (type == "reward") changes["num_labels"] = 1;
  if (const auto count = config.training_arguments().classification.num_labels; count && type == "classification")
    changes["num_labels"] = *count;
}

std::shared_ptr<BaseModule> load(const ELargeConfig& config, const ModelSection& section, TaskType task,
                                 bool is_trained) {
  const LoaderSection loader = config.loader();
  const ShardingSection sharding = config.sharding();
  const QuantizationSection packing = config.quantization();
  const bool spread = sharding.auto_shard_model && World::current()->size() > 1;
  Json changes = config.config_kwargs();
  for (const auto& [key, value] : section.extra_kwargs.as_object()) {
    if (key == "num_labels") changes[key] = value;
  }
  if (is_trained && config.has("trainer")) {
    add_labels(config, changes);
    if (const auto policy = config.training_arguments().gradient_checkpointing)
      changes["gradient_checkpointing"] = *policy;
  }
  const Json* revision = section.extra_kwargs.find("revision");
  if (is_config_file(section.name_or_path)) {
    const auto parsed = AutoConfig::from_pretrained(section.name_or_path, {.overrides = changes});
    if (World::current()->rank() == 0)
      log::info("[elarge] ", section.name_or_path, " is a config alone: the weights are drawn.");
    const auto module = Registry::instance().make_module(*parsed, task);
    const ModuleOptions options{.dtype = loader.dtype,
                                .param_dtype = loader.param_dtype,
                                .precision = parse_precision(loader.precision.value_or("")),
                                .rngs = RandomKey(static_cast<uint64_t>(config.training_arguments().seed)),
                                .device = device_of(loader)};
    module->set_options(options);
    if (spread) module->place_parameters({}, World::current());
    module->initialize(options);
    return module;
  }
  return load_model(section.name_or_path, task,
                    {.device = device_of(loader),
                     .dtype = loader.dtype,
                     .param_dtype = loader.param_dtype,
                     .precision = loader.precision.value_or(""),
                     .partition_axis = sharding.partition_axis,
                     .auto_shard_model = spread,
                     .config_kwargs = changes,
                     .quantization_method = packing.method.value_or(""),
                     .quantization_block_size =
                         packing.method ? packing.linear_group_size.value_or(packing.group_size.value_or(0)) : 0,
                     .quantization_pattern = packing.method ? packing.linear_pattern.value_or("") : "",
                     .quantize_tensors = packing.apply_quantization,
                     .revision = revision && revision->is_string() ? revision->as_string() : "main",
                     .verbose = loader.verbose});
}

TaskType task_of(const ELargeConfig& config) {
  const TaskType given = config.model().task_type();
  if (given != TaskType::AutoBind || !config.has("trainer")) return given;
  const std::string type = config.trainer_type();
  return type == "reward" || type == "classification" ? TaskType::SequenceClassification : TaskType::CausalLM;
}

std::shared_ptr<const data::Dataset> open_mixture(const MixtureSection& section, const TrainingArguments& arguments,
                                                  bool shuffle) {
  auto options = to_mixture_options<data::MixtureOptions>(section);
  if (!shuffle) options.shuffle_buffer_size.reset();
  options.seed = static_cast<uint64_t>(section.seed.value_or(arguments.shuffle_seed_train));
  return data::Dataset::open(options);
}

}  // namespace

int64_t ELargeModel::devices() const {
  if (World::current()->size() > 1 || !device_of(config_.loader()).is_cpu()) return 1;
  int64_t product = 1;
  for (const int64_t size : config_.sharding().axis_dims) product *= size;
  return std::max<int64_t>(product, 1);
}

std::shared_ptr<BaseModule> ELargeModel::build_model() {
  if (!model_) model_ = load(config_, config_.model(), task_of(config_), /*is_trained=*/true);
  return model_;
}

std::shared_ptr<BaseModule> ELargeModel::build_teacher_model() {
  if (const auto section = config_.teacher_model(); section && !teacher_model_)
    teacher_model_ = load(config_, *section, TaskType::CausalLM, false);
  return teacher_model_;
}

std::shared_ptr<BaseModule> ELargeModel::build_reference_model() {
  if (const auto section = config_.reference_model(); section && !reference_model_)
    reference_model_ = load(config_, *section, TaskType::CausalLM, false);
  return reference_model_;
}

std::shared_ptr<const AutoTokenizer> ELargeModel::build_tokenizer() {
  if (!tokenizer_) {
    const fs::path directory = tokenizer_directory(config_.model());
    tokenizer_ = std::make_shared<const AutoTokenizer>(
        directory.empty() ? AutoTokenizer::absent(concat("[tokenizer] there is none in the directory of ",
                                                         config_.model().name_or_path,
                                                         ", and rows of text need one. Name it with --tokenizer "
                                                         "(model.tokenizer), or give rows of input_ids."))
                          : AutoTokenizer::from_directory(directory));
  }
  return tokenizer_;
}

// The model that an objective needs beside the one that learns. Without a reference_model that of DPO is the model as
// it was at the beginning.
std::shared_ptr<BaseModule> ELargeModel::other_model(const std::string& trainer_type,
                                                     const TrainingArguments& arguments) {
  if (trainer_type == "distillation") {
    require<ConfigError>(config_.teacher_model().has_value(), "[elarge] distillation needs a teacher_model.");
    return build_teacher_model();
  }
  if (trainer_type != "dpo" || !arguments.dpo.uses_reference()) return nullptr;
  // The trainer computes its log-probabilities ahead with the model itself.
  if (!config_.reference_model() && arguments.dpo.precompute_ref_log_probs) return nullptr;
  if (!config_.reference_model()) reference_model_ = load(config_, config_.model(), TaskType::CausalLM, false);
  return build_reference_model();
}

std::shared_ptr<Trainer> ELargeModel::build_trainer(std::shared_ptr<RunLock> lock) {
  config_.validate();
  TrainerOptions run;
  run.lock = std::move(lock);
  run.trainer_type = config_.trainer_type();
  run.arguments = config_.training_arguments();
  MixtureSection mixture = config_.mixture();
  if (mixture.pack_tokens) run.arguments.text.packing = true;
  if (mixture.pack_seq_length && !run.arguments.max_length) run.arguments.max_length = mixture.pack_seq_length;
  run.train_dataset = open_mixture(mixture, run.arguments, run.arguments.shuffle_train_dataset);
  if (const auto eval = config_.eval_mixture()) run.eval_dataset = open_mixture(*eval, run.arguments, false);
  run.tokenizer = build_tokenizer();
  run.tokenizer_directory = tokenizer_directory(config_.model());
  run.model = build_model();
  run.objective = make_objective(run.trainer_type, other_model(run.trainer_type, run.arguments));
  run.run_config = config_.normalized();
  return std::make_shared<Trainer>(std::move(run));
}

TrainResult ELargeModel::train() {
  config_.validate();
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
  tokenizer_.reset();
}

}  // namespace easydel
