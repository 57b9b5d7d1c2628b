// Setup of a trainer: checks, the optimizer, the data.
#include <ATen/ATen.h>

#include <algorithm>
#include <regex>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/state/state_layout.h"
#include "easydel/io/hub/hub_environment.h"
#include "easydel/io/hub/hub_repo.h"
#include "easydel/lora/lora.h"
#include "easydel/optim/make_optimizer.h"
#include "easydel/optim/offload.h"
#include "easydel/quantization/pack.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/float8_training.h"
#include "easydel/trainers/run/trainer_impl.h"
#include "easydel/trainers/trackers/tracker.h"

namespace easydel {
namespace fs = std::filesystem;

namespace {

// A transform, so that a model built from the state has the same frozen parameters.
class Freeze final : public ModuleTransform {
 public:
  explicit Freeze(const std::string& pattern) : pattern_(pattern) {}
  void apply(BaseModule& module) const override {
    for (const auto& [path, parameter] : module.named_parameters()) {
      if (!matches(path)) continue;
      parameter->trainable = false;
      if (!parameter->is_lazy() && parameter->value().is_floating_point()) parameter->value().requires_grad_(false);
    }
  }
  bool matches(const std::string& path) const { return std::regex_search(path, pattern_); }

 private:
  std::regex pattern_;
};

// The head of a classifier, which is trained as a whole beside adapters; empty: the model has none.
std::string classifier_of(const BaseModule& model) {
  const TaskType task = model.model_task();
  if (is_token_task(task) && task != TaskType::TokenClassification) return "";
  for (const char* name : {"score", "classifier", "classification_head"}) {
    for (const auto& [path, parameter] : model.named_parameters()) {
      if (path.starts_with(concat(name, "."))) return name;
    }
  }
  return "";
}

// What the directory of the training tokenizer has goes into every checkpoint; a generation config of the model stays.
void adopt_tokenizer(BaseModule& model, const std::filesystem::path& directory) {
  Companions adopted = Companions::read(directory);
  if (adopted.processor.empty()) adopted.processor = model.companions().processor;
  if (const Companions& own = model.companions(); !own.generation_config.is_null()) {
    adopted.generation_config = own.generation_config;
    adopted.generation_config_file = own.generation_config_file;
  }
  model.set_companions(std::make_shared<const Companions>(std::move(adopted)));
}

}  // namespace

Trainer::Impl::Impl(TrainerOptions options) : options_(std::move(options)) {
  check();
  if (is_first()) {
    for (const std::string& note : args().unsupported_notes()) log::warning("[trainer] ", note);
  }
  if (!options_.tokenizer_directory.empty()) adopt_tokenizer(*options_.model, options_.tokenizer_directory);
  apply_lora();
  freeze_parameters();
  require_trainable_weights();
  make_float8();
  make_loader();
  make_optimizer();
  if (options_.model->dtype() == float16) loss_scale_ = LossScale(args().loss_scale, args().loss_scale_growth_interval);
  state = options_.model->to_state(tx_);
  if (const auto along = options_.objective->trained_along()) companion_ = along->to_state(tx_);
  if (args().ema_decay) ema_.emplace(*args().ema_decay).init(trained_params(state.graphdef, state.graphstate));
}

void Trainer::Impl::check() const {
  require<ConfigError>(options_.model != nullptr, "[trainer] a model is needed.");
  require<ConfigError>(options_.objective != nullptr, "[trainer] an objective is needed.");
  require<ConfigError>(options_.tokenizer != nullptr, "[trainer] a tokenizer is needed.");
  require<ConfigError>(options_.train_dataset != nullptr, "[trainer] a train_dataset is needed.");
  require_trainer_type(options_.trainer_type, "[trainer] trainer_type");
  args().validate_for(options_.trainer_type);
  require<ConfigError>(options_.model->model_task() == options_.objective->task(), "[trainer] ", options_.trainer_type,
                       " trains a model for ", task_name(options_.objective->task()), "; got ",
                       options_.model->type_name(), ".");
  require<ConfigError>(options_.train_dataset->size() > 0, "[trainer] the training data set has no rows.");
  const std::string& policy = options_.model->config().memory.gradient_checkpointing;
  require<ConfigError>(args().gradient_checkpointing.value_or(policy) == policy,
                       "[trainer] gradient_checkpointing is a setting of the model, which was created with \"", policy,
                       "\"; got \"", args().gradient_checkpointing.value_or(""), "\".");
  own_rows(args().minibatch_size(), parallel());
  make_trackers(args(), {});  // what the environment lacks is said by every rank
  if (args().push.push_to_hub) {
    const std::string repository = pushed_repository(args());
    require<ConfigError>(
        repository.find('/') == std::string::npos ? is_repo_id("org/" + repository) : is_repo_id(repository),
        "[trainer] hub_model_id must be a name or org/name; got \"", repository, "\".");
    require<ConfigError>(!read_hub_environment().token.empty(),
                         "[trainer] push_to_hub needs a token of the hub. Set HF_TOKEN.");
  }
}

void Trainer::Impl::prepare() {
  if (prepared_) return;
  prepared_ = true;
  ObjectiveData data{
      .tokenizer = *options_.tokenizer, .datasets = {}, .batch = batch_options(minibatch_rows(), args())};
  for (const auto& dataset : {options_.train_dataset, options_.eval_dataset}) {
    if (dataset) data.datasets.push_back(dataset);
  }
  options_.objective->prepare(*options_.model, args(), data);
}

void Trainer::Impl::count_flops() {
  flops_.clear();
  const TaskType task = options_.objective->task();
  const bool is_counted = task == TaskType::CausalLM || task == TaskType::SequenceClassification;
  if (args().performance_mode || !is_counted) return;
  flops_.emplace_back(*options_.model);
  if (const auto along = options_.objective->trained_along()) flops_.emplace_back(*along);
  for (const BaseModule* other : options_.objective->other_models()) flops_.emplace_back(*other, false);
  if (options_.objective->runs_base()) flops_.emplace_back(*options_.model, false, /*with_adapters=*/false);
}

void Trainer::Impl::freeze_parameters() {
  const bool is_given = args().frozen_parameters.has_value();
  const auto pattern = is_given ? args().frozen_parameters : options_.objective->frozen_by_default(args());
  if (!pattern || (!is_given && !adapter_names(*options_.model).empty())) return;  // adapters freeze all else
  auto freeze = std::make_shared<Freeze>(*pattern);
  const auto parameters = options_.model->named_parameters();
  const bool found =
      std::any_of(parameters.begin(), parameters.end(), [&](const auto& p) { return freeze->matches(p.path); });
  require<ConfigError>(found, "[trainer] frozen_parameters \"", *pattern, "\" matches no parameter.");
  options_.model->transform(std::move(freeze));
}

// Codes cannot be trained: without adapters a step would silently change only the dense weights.
void Trainer::Impl::require_trainable_weights() const {
  if (!adapter_names(*options_.model).empty()) return;
  std::vector<std::string> packed;
  for (const auto& layer : quantization::packed_layers(*options_.model)) packed.push_back(layer.path + ".weight");
  for (const auto& stack : quantization::expert_stacks(*options_.model)) {
    if (stack.packed()) packed.push_back(stack.path);
  }
  if (args().frozen_parameters) {
    const Freeze freeze(*args().frozen_parameters);
    std::erase_if(packed, [&](const std::string& path) { return freeze.matches(path); });
  }
  require<ConfigError>(packed.empty(), "[trainer] ", packed.size(),
                       " weights of the model are quantized and cannot be trained, \"",
                       packed.empty() ? "" : packed.front(),
                       "\" is the first. Train adapters on them (--lora-rank, lora_rank), load the model without "
                       "quantization, or list them in frozen_parameters.");
}

// Adds the adapters that the arguments request. A model that already has adapters trains the active ones.
void Trainer::Impl::apply_lora() {
  BaseModule& model = *options_.model;
  if (args().lora_rank) {
    require<ConfigError>(adapter_names(model).empty(),
                         "[trainer] lora_rank adds adapters to the model, which already has some.");
    LoraOptions lora{.dropout = args().lora_dropout,
                     .rslora = args().use_rslora,
                     .dora = args().use_dora,
                     .rngs = RandomKey(static_cast<uint64_t>(args().seed)).fold("lora")};
    std::string pattern = args().lora_pattern.value_or(".*");
    if (const auto frozen = options_.objective->frozen_by_default(args()); frozen && !args().lora_pattern)
      pattern = concat("^(?!.*(", *frozen, "))");
    if (const std::string head = classifier_of(model); !head.empty()) {
      lora.modules_to_save = {head};
      if (!args().lora_pattern) pattern = concat("^(?!", head, "(\\.|$))");
    }
    model.apply_lora_to_layers(*args().lora_rank, args().lora_alpha.value_or(static_cast<double>(*args().lora_rank)),
                               pattern, lora);
  }
  if (adapter_names(model).empty()) return;
  require<ConfigError>(!lora_is_merged(model), "[trainer] the model's adapters are merged: nothing would be trained.");
  try {
    set_saves_merged(model, args().merge_lora_before_save);
  } catch (const NotSupportedError& error) {
    if (is_first()) log::warning("[trainer] checkpoints contain only the adapters: ", error.what());
  }
}

void Trainer::Impl::make_float8() {
  if (!args().fp8) return;
  require<NotSupportedError>(!is_generating(), "[trainer] fp8 must be null with ", options_.trainer_type,
                             ", whose model also writes completions; got ", *args().fp8, ". Train in bfloat16.");
  const Float8Layers layers = train_in_float8(*options_.model, operations::parse_float8(*args().fp8));
  if (is_first() && args().verbose)
    log::info("[trainer] fp8 ", *args().fp8, ": ", layers.converted, " linear layers use float8 products, ",
              layers.left, " other linear layers do not, nor do embeddings, heads and stacked experts.");
}

namespace {

// Sorted together: up to fifty batches, but at least a fourth of an epoch is apart from the rest, as in transformers.
int64_t grouped_rows(int64_t rows, int64_t batch) { return batch * std::clamp<int64_t>(rows / (batch * 4), 1, 50); }

}  // namespace

void Trainer::Impl::make_loader() {
  const OwnRows own = own_rows(args().minibatch_size(), parallel());
  data::LoaderOptions loader;
  loader.streams = args().total_batch_size;
  loader.prefetch = options_.rows.prefetch_buffer_size;
  for (int64_t i = 0; i < args().gradient_accumulation_steps; ++i) {
    for (int64_t j = 0; j < own.count; ++j) loader.own.push_back(i * args().minibatch_size() + own.first + j);
  }
  loader.pack = packing_of(*options_.objective, args());
  if (args().group_by_length) {
    loader.pack = {.documents = grouped_rows(options_.train_dataset->epoch_size(), args().total_batch_size),
                   .threads = args().dataset_num_proc.value_or(1),
                   .sorts = true};
  }
  loader.workers = options_.rows.prefetch_workers.value_or(args().loader_threads());
  loader_ = std::make_unique<data::Loader>(options_.train_dataset,
                                           transform_of(*options_.objective, *options_.tokenizer, args()), loader);
  const bool evaluates_by_epoch = options_.eval_dataset && args().do_eval && !args().evaluation_steps;
  if (args().per_epoch_training_steps) {
    steps_per_epoch_ = *args().per_epoch_training_steps;
  } else if (!args().max_training_steps || evaluates_by_epoch) {
    const int64_t examples = options_.objective->packs(args()) ? count_packed_rows() : loader_->examples_of_epoch();
    steps_per_epoch_ = std::max<int64_t>((examples + args().total_batch_size - 1) / args().total_batch_size, 1);
  }
  total_steps = args().max_training_steps.value_or(steps_per_epoch_ * args().num_train_epochs);
}

// The number of packed rows per epoch: every document is tokenized once.
int64_t Trainer::Impl::count_packed_rows() const {
  const data::Dataset& dataset = *options_.train_dataset;
  const data::Transform transform = transform_of(*options_.objective, *options_.tokenizer, args());
  Progress progress("counting tokens", {.total = dataset.epoch_size(), .unit = "rows", .enabled = args().verbose});
  if (const data::PackOptions pack = packing_of(*options_.objective, args()); pack.in_blocks()) {
    data::PackedBlocks blocks(options_.train_dataset, transform, pack, /*rows_kept=*/0);
    int64_t rows = 0;
    for (int64_t i = 0; i < blocks.blocks_of_epoch(); ++i) {
      rows += blocks.rows_in(i);
      progress.advance(std::min(pack.documents, dataset.epoch_size() - i * pack.documents));
    }
    return rows;
  }
  int64_t tokens = 0;
  for (int64_t i = 0; i < dataset.epoch_size(); ++i) {
    if (const auto example = transform(dataset.at(i))) tokens += static_cast<int64_t>(example->input_ids.size());
    progress.advance();
  }
  return (tokens + args().sequence_length() - 1) / args().sequence_length();
}

void Trainer::Impl::make_optimizer() {
  const TrainingArguments& a = args();
  Json kwargs = a.extra_optimizer_kwargs;
  if (a.tx_mu_dtype) kwargs["mu_dtype"] = dtype_name(*a.tx_mu_dtype);
  auto made = optim::make_optimizer({.optimizer = a.optimizer,
                                     .scheduler = a.scheduler,
                                     .learning_rate = a.learning_rate,
                                     .learning_rate_end = a.learning_rate_end,
                                     .warmup_steps = a.warmup_steps,
                                     .total_steps = total_steps,
                                     .weight_decay = a.weight_decay,
                                     .extra_optimizer_kwargs = kwargs});
  tx_ = options_.tx ? options_.tx : made.tx;
  if (a.offload_optimizer) {
    require<NotSupportedError>(device().is_cuda() && !parallel(),
                               "[trainer] offload_optimizer must be false on a CPU, whose memory holds the states "
                               "anyway, and on a mesh, which shards them (sharding.zero_stage); got true.");
    tx_ = optim::offloaded(std::move(tx_));
  }
  schedule_ = made.schedule;
}

std::optional<fs::path> Trainer::Impl::directory() const {
  if (!args().save_directory) return std::nullopt;
  return fs::path(*args().save_directory);
}

BatchOptions Trainer::Impl::batch_options(int64_t rows, const TrainingArguments& arguments) const {
  BatchOptions batch{.rows = rows, .device = device()};
  const auto pad = options_.tokenizer->config().special_token("pad_token");
  const auto id = pad ? (*options_.tokenizer)->token_to_id(*pad) : std::nullopt;
  const std::optional<int64_t> known = options_.model->config().pad_token_id;
  batch.pad_token_id = options_.objective->padding_value(args()).value_or(id ? *id : known.value_or(0));
  // A classifier finds the end of a row by its config's padding token.
  if (options_.objective->task() == TaskType::SequenceClassification)
    batch.pad_token_id = known.value_or(batch.pad_token_id);
  batch.width = packing_of(*options_.objective, arguments).max_length;
  const bool is_padded = options_.objective->task() == TaskType::ZeroShotImageClassification;  // each row by itself
  if (batch.width == 0 && options_.rows.pad_to_max_length && !is_padded) batch.width = arguments.sequence_length();
  batch.joins_rows = options_.objective->joins_rows(arguments);
  return batch;
}

namespace {

void set_counts(optim::OptState& state, int64_t count) {
  if (const auto found = state.counts.find("count"); found != state.counts.end()) found->second = count;
  for (optim::OptState& child : state.children) set_counts(child, count);
}

}  // namespace

// Sets the schedule, the optimizer's counts and the data as after that many steps. A run that resumes from a
// checkpoint keeps its own position, so that an interrupted run continues unchanged.
void Trainer::Impl::start_at_step() {
  if (!args().step_start_point || *args().step_start_point == state.step) return;
  if (state.step > 0 && !args().force_step_start_point) {
    if (is_first())
      log::info("[trainer] step_start_point is ", *args().step_start_point, "; the run resumes from step ", state.step,
                " of its checkpoint. Set force_step_start_point to override it.");
    return;
  }
  if (state.step > 0) make_loader();  // from the beginning of the data
  const int64_t steps = std::min(*args().step_start_point, total_steps);
  Progress progress("skipping", {.total = steps, .unit = "steps", .enabled = args().verbose && is_first()});
  for (int64_t i = 0; i < steps; ++i) {
    loader_->next();
    progress.advance();
  }
  state.step = *args().step_start_point;
  skipped_ = skipped_in_a_row_ = 0;
  if (state.opt_state) set_counts(*state.opt_state, state.step);
  if (companion_ && companion_->opt_state) set_counts(*companion_->opt_state, state.step);
  if (is_first()) log::info("[trainer] starting at step ", state.step, " (step_start_point).");
}

}  // namespace easydel
