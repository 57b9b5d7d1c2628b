// The loss of a model on data that it does not learn from.
#include <ATen/ATen.h>

#include <cmath>
#include <exception>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/data/packing/packer.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {
namespace {

// What follows from these numbers must be the same on all ranks, to the last bit.
void take_from_first(Metrics& metrics, const Parallel* parallel, at::Device device) {
  if (!parallel) return;
  std::vector<double> values;
  for (const auto& [name, value] : metrics) values.push_back(value);
  at::Tensor shared = at::tensor(values, at::TensorOptions(at::kDouble)).to(device);
  parallel->everyone().broadcast(shared, 0);
  shared = shared.to(at::kCPU);
  int64_t i = 0;
  for (auto& [name, value] : metrics) value = shared.const_data_ptr<double>()[i++];
}

}  // namespace

// Each row once, in order; nothing at the end. Packed, where the arguments say so.
std::function<std::optional<data::Example>()> Trainer::Impl::evaluation_examples(
    const TrainingArguments& arguments) const {
  auto examples = [transform = transform_of(*options_.objective, *options_.tokenizer, arguments),
                   dataset = options_.eval_dataset, next = int64_t{0}]() mutable -> std::optional<data::Example> {
    while (next < dataset->size()) {
      if (auto example = transform(dataset->row(next++))) return example;
    }
    return std::nullopt;
  };
  if (!options_.objective->packs(arguments)) return examples;
  auto packer = std::make_shared<data::Packer>(packing_of(*options_.objective, arguments), std::move(examples));
  return [packer] { return packer->next(); };
}

Metrics Trainer::Impl::evaluate() {
  require<ConfigError>(options_.eval_dataset != nullptr, "[trainer] there is no eval_dataset.");
  const at::NoGradGuard no_grad;
  prepare();
  const Objective& objective = *options_.objective;
  const int64_t size = args().evaluation_batch_size(), each = objective.rows_per_example(args());
  const int64_t parts = parallel() ? parallel()->mesh().size(parallel()->batch()) : 1;
  const TrainingArguments arguments = args().for_evaluation();
  const auto next_example = evaluation_examples(arguments);
  const int64_t limit =
      std::min(args().max_evaluation_steps.value_or(INT64_MAX), args().per_epoch_evaluation_steps.value_or(INT64_MAX));
  std::map<std::string, at::Tensor> sums;
  double items = 0;
  const auto add = [&](const std::string& name, const at::Tensor& value, double weight) {
    at::Tensor& sum = sums[name];
    const at::Tensor weighted = value.detach().to(at::kDouble) * weight;
    sum = sum.defined() ? sum + weighted : weighted;
  };
  for (int64_t step = 0; step < limit; ++step) {
    std::vector<BatchRow> rows, all;
    std::vector<data::Example> prompts;
    int64_t examples = 0;
    std::exception_ptr error;
    try {
      for (; examples < size; ++examples) {
        auto example = next_example();
        if (!example) break;
        if (is_generating()) {
          prompts.push_back(std::move(*example));
          continue;
        }
        for (BatchRow& row : objective.rows(*example)) all.push_back(std::move(row));
      }
      objective.link_rows(all, arguments);
    } catch (...) {
      error = std::current_exception();
    }
    // All ranks agree on it, so that they can still save together.
    evaluation_rows_failed_ = max_over_all(error ? 1 : 0, parallel(), device()) > 0;
    if (error) std::rethrow_exception(error);
    require<DistributedError>(!evaluation_rows_failed_, "[evaluate] another rank cannot read the data.");
    if (examples == 0) break;
    if (is_generating()) {
      items += evaluate_generated(std::move(prompts), step, add);
      continue;
    }
    const double count = objective.count_items(all);
    std::map<std::string, double> totals;
    add_numbers(all, totals);
    // The last batch is short. Where labels decide what counts, it is padded with rows without labels; where all
    // rows count, the model gets only the rows that are there, and splits them over the ranks.
    const bool all_count = examples < size && each == 1 && !is_token_task(objective.task());
    const int64_t padded = all_count ? (examples + parts - 1) / parts * parts : size;
    const OwnRows own = own_rows(padded, parallel());
    while (static_cast<int64_t>(all.size()) < padded * each) {
      BatchRow filler = all.front();
      filler.labels.assign(filler.input_ids.size(), -100);
      filler.target_ids.assign(filler.target_ids.size(), -100);
      for (auto& [name, value] : filler.numbers) value = 0;
      all.push_back(std::move(filler));
    }
    for (int64_t i = own.first * each; i < (own.first + own.count) * each; ++i)
      rows.push_back(all[static_cast<std::size_t>(i)]);
    Batch batch = make_batch(rows, batch_options(padded * each, arguments), parallel());
    if (all_count) batch = batch.first_rows(examples);
    const LossContext context{.arguments = arguments, .items = std::max(count, 1.0), .share = 1, .totals = totals};
    const ObjectiveLoss out = objective.loss(*options_.model, batch, context);
    items += count;
    add("eval_loss", out.loss, count);
    for (const auto& [name, value] : out.metrics) add("eval_" + name, value, count);
  }
  require<ConfigError>(items > 0, "[evaluate] the evaluation data has nothing that counts in the loss.");
  Metrics metrics;
  for (const auto& [name, sum] : sums) metrics[name] = sum.item<double>() / items;
  const TaskType task = objective.task();
  const bool is_text =
      task == TaskType::CausalLM || task == TaskType::SequenceToSequence || task == TaskType::SpeechSequenceToSequence;
  const bool is_likelihood =
      is_text && each == 1 && options_.trainer_type != "kto" && options_.trainer_type != "bco" && !is_generating();
  if (is_likelihood && args().text.loss_type == "nll") metrics["eval_perplexity"] = std::exp(metrics.at("eval_loss"));
  take_from_first(metrics, parallel(), device());
  if (log_) log_->evaluated(state.step, metrics);
  if (options_.hooks.on_evaluate) options_.hooks.on_evaluate(state.step, metrics);
  return metrics;
}

// The loss and the rewards of what the model writes for these prompts; how many rows that were. On a mesh prompts that
// do not divide evenly are left out.
double Trainer::Impl::evaluate_generated(std::vector<data::Example> prompts, int64_t index, const AddMetric& add) {
  Objective& objective = *options_.objective;
  const int64_t parts = parallel() ? parallel()->mesh().size(parallel()->batch()) : 1;
  prompts.resize(prompts.size() - prompts.size() % static_cast<std::size_t>(parts));
  if (prompts.empty()) return 0;
  const auto size = static_cast<int64_t>(prompts.size());
  const OwnRows own = own_rows(size, parallel());
  const std::vector<data::Example> mine(prompts.begin() + own.first, prompts.begin() + own.first + own.count);
  const BatchOptions options = batch_options(size * objective.rows_per_example(args()), args());
  const GeneratedRows generated = objective.generate(
      options_.model, {mine},
      {.arguments = args(), .tokenizer = *options_.tokenizer, .batch = options, .step = index, .is_evaluation = true});
  const std::vector<BatchRow>& rows = generated.steps.front();
  const double count = sum_over_batch({objective.count_items(rows)}, parallel(), device())[0];
  std::map<std::string, double> totals = total_numbers({rows}, parallel(), device());
  const Batch batch = make_batch(rows, options, parallel());
  const LossContext context{.arguments = args(), .items = std::max(count, 1.0), .share = 1, .totals = totals};
  const ObjectiveLoss out = objective.loss(*options_.model, batch, context);
  add("eval_loss", out.loss, count);
  for (const auto& [name, value] : out.metrics) add("eval_" + name, value, count);
  for (const auto& [name, value] : generated.metrics) add("eval_" + name, at::scalar_tensor(value), count);
  return count;
}

// train() of a run that is told not to.
TrainResult Trainer::Impl::evaluate_alone() {
  if (is_first())
    log_ = std::make_unique<RunLog>(options_, *options_.model, directory(), state.step, state.step, false);
  TrainResult result{.step = state.step, .metrics = evaluate(), .stopped_by = StopReason::NotTrained};
  if (log_) result.report = log_->finish(to_string(result.stopped_by), {});
  return result;
}

void Trainer::Impl::note_evaluation(const Metrics& metrics) {
  std::string name = args().metric_for_best_model;
  if (!name.starts_with("eval_")) name = "eval_" + name;
  const auto found = metrics.find(name);
  if (found == metrics.end()) {
    std::string known;
    for (const auto& [key, value] : metrics) known += (known.empty() ? "" : ", ") + key;
    fail<ConfigError>("[trainer] metric_for_best_model \"", args().metric_for_best_model,
                      "\" is not a metric of the evaluation; known: ", known, ".");
  }
  const double sign = args().prefers_greater() ? 1.0 : -1.0;
  ++evaluations_without_gain_;
  if (!std::isfinite(found->second)) return;
  if (!best_ || sign * (found->second - *best_) > args().early_stopping_threshold) {
    best_ = found->second;
    best_step_ = state.step;
    evaluations_without_gain_ = 0;
  }
}

bool Trainer::Impl::has_stopped_early() const {
  return args().early_stopping_patience && evaluations_without_gain_ >= *args().early_stopping_patience;
}

void Trainer::Impl::load_best() {
  if (!best_step_ || !directory() || *best_step_ == state.step) return;
  const std::filesystem::path path = checkpoint_path(*directory(), *best_step_);
  if (!std::filesystem::exists(path)) {
    if (is_first())
      log::warning("[load_best_model_at_end] ", path.string(), " no longer exists; keeping the last weights.");
    return;
  }
  load_weights_from(path);
  const State best = options_.model->to_state();
  state.graphdef = best.graphdef;
  state.graphstate = best.graphstate;
  state.graphother = best.graphother;
  if (is_first()) log::info("[trainer] the weights of step ", *best_step_, " were the best and have been loaded.");
}

}  // namespace easydel
