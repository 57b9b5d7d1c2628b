// The loss of a model on data that it does not learn from.
#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/trainer_impl.h"

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

Metrics Trainer::Impl::evaluate() {
  require<ConfigError>(options_.eval_dataset != nullptr, "[trainer] there is no eval_dataset.");
  const at::NoGradGuard no_grad;
  prepare();
  const Objective& objective = *options_.objective;
  const int64_t size = args().evaluation_batch_size(), each = objective.rows_per_example();
  const OwnRows own = own_rows(size, parallel());
  const data::Transform transform = transform_of(objective, *options_.tokenizer, args());
  const data::Dataset& dataset = *options_.eval_dataset;
  int64_t next = 0;
  const int64_t limit =
      std::min(args().max_evaluation_steps.value_or(INT64_MAX), args().per_epoch_evaluation_steps.value_or(INT64_MAX));
  std::map<std::string, at::Tensor> sums;
  double items = 0;
  for (int64_t step = 0; step < limit; ++step) {
    std::vector<data::Example> batch_examples;
    while (next < dataset.size() && static_cast<int64_t>(batch_examples.size()) < size) {
      if (auto example = transform(dataset.row(next++))) batch_examples.push_back(std::move(*example));
    }
    if (batch_examples.empty()) break;
    std::vector<BatchRow> rows, all;
    for (const data::Example& example : batch_examples) {
      for (BatchRow& row : objective.rows(example)) all.push_back(std::move(row));
    }
    const double count = objective.count_items(all);
    std::map<std::string, double> totals;
    add_numbers(all, totals);
    // The last batch is short: its missing rows repeat a token and count in nothing.
    while (static_cast<int64_t>(all.size()) < size * each) {
      BatchRow filler = all.front();
      filler.labels.assign(filler.input_ids.size(), -100);
      for (auto& [name, value] : filler.numbers) value = 0;
      all.push_back(std::move(filler));
    }
    if (static_cast<int64_t>(batch_examples.size()) < size && objective.task() == TaskType::SequenceClassification &&
        each == 1)
      continue;  // rows of a classifier all count: the last ones are left out
    for (int64_t i = own.first * each; i < (own.first + own.count) * each; ++i)
      rows.push_back(all[static_cast<std::size_t>(i)]);
    const Batch batch = make_batch(rows, batch_options(size * each), parallel());
    const LossContext context{.arguments = args(), .items = std::max(count, 1.0), .share = 1, .totals = totals};
    const ObjectiveLoss out = objective.loss(*options_.model, batch, context);
    items += count;
    const auto add = [&](const std::string& name, const at::Tensor& value) {
      at::Tensor& sum = sums[name];
      const at::Tensor weighted = value.detach().to(at::kDouble) * count;
      sum = sum.defined() ? sum + weighted : weighted;
    };
    add("eval_loss", out.loss);
    for (const auto& [name, value] : out.metrics) add("eval_" + name, value);
  }
  require<ConfigError>(items > 0, "[evaluate] the data to evaluate on has nothing that counts in the loss.");
  Metrics metrics;
  for (const auto& [name, sum] : sums) metrics[name] = sum.item<double>() / items;
  if (objective.task() == TaskType::CausalLM && objective.rows_per_example() == 1)
    metrics["eval_perplexity"] = std::exp(metrics.at("eval_loss"));
  take_from_first(metrics, parallel(), device());
  if (log_) log_->evaluated(state.step, metrics);
  if (options_.hooks.on_evaluate) options_.hooks.on_evaluate(state.step, metrics);
  return metrics;
}

// train() of a run that is told not to.
TrainResult Trainer::Impl::evaluate_alone() {
  if (is_first()) log_ = std::make_unique<RunLog>(options_, *options_.model, directory(), state.step, state.step);
  TrainResult result{.step = state.step, .metrics = evaluate(), .stopped_by = "do_train is false"};
  if (log_) result.report = log_->finish(result.stopped_by, {});
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
                      "\" is not among what evaluation gives: ", known, ".");
  }
  const double sign = args().greater_is_better ? 1.0 : -1.0;
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
    if (is_first()) log::warning("[load_best_model_at_end] ", path.string(), " is gone: the last weights stay.");
    return;
  }
  load_weights_from(path);
  const State best = options_.model->to_state();
  state.graphdef = best.graphdef;
  state.graphstate = best.graphstate;
  state.graphother = best.graphother;
  if (is_first()) log::info("[trainer] the weights of step ", *best_step_, " are the best and were loaded.");
}

}  // namespace easydel
