#include "easydel/trainers/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/optim/transforms.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/gradients.h"
#include "easydel/trainers/stop_signal.h"
#include "easydel/trainers/trainer_impl.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr int kTimeIsUp = 1000;

std::string reason(int stop) {
  return stop == kTimeIsUp ? "time limit" : stop == 2 ? "SIGINT" : stop == 15 ? "SIGTERM" : concat("signal ", stop);
}

// One copy from the device for all of them.
Metrics to_host(const std::map<std::string, at::Tensor>& values) {
  std::vector<at::Tensor> flat;
  for (const auto& [name, value] : values) flat.push_back(value.detach().reshape({1}).to(at::kDouble));
  const at::Tensor host = at::cat(flat).to(at::kCPU);
  Metrics metrics;
  int64_t i = 0;
  for (const auto& [name, value] : values) metrics[name] = host.const_data_ptr<double>()[i++];
  return metrics;
}

// For who wants to know which rows a run learned from: metrics.jsonl gets a "batch_checksum".
bool logs_batches() {
  static const bool wanted = std::getenv("EASYDEL_LOG_BATCHES") != nullptr;
  return wanted;
}

// Of all minibatches and all ranks. What numbers a row has depends on the objective alone.
std::map<std::string, double> total_numbers(const std::vector<std::vector<BatchRow>>& rows, const Parallel* parallel,
                                            at::Device device) {
  std::map<std::string, double> totals;
  for (const auto& minibatch : rows) add_numbers(minibatch, totals);
  if (totals.empty()) return totals;
  std::vector<double> values;
  for (const auto& [name, total] : totals) values.push_back(total);
  values = sum_over_batch(std::move(values), parallel, device);
  for (std::size_t i = 0; auto& [name, total] : totals) total = values[i++];
  return totals;
}

Json describe_row(const BatchRow& row) {
  return Json::object({{"input_ids", row.input_ids}, {"labels", row.labels}, {"segment_ids", row.segment_ids}});
}

}  // namespace

Trainer::Trainer(TrainerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Trainer::~Trainer() = default;
TrainResult Trainer::train() { return impl_->train(); }
Metrics Trainer::evaluate() { return impl_->evaluate(); }
const State& Trainer::state() const { return impl_->state; }
int64_t Trainer::total_steps() const { return impl_->total_steps; }
fs::path Trainer::save() { return impl_->save(); }

bool Trainer::Impl::is_first() const { return !parallel() || parallel()->mesh().rank() == 0; }

std::vector<std::vector<BatchRow>> Trainer::Impl::next_rows() {
  const std::vector<data::Example> examples = loader_->next();
  const auto steps = static_cast<std::size_t>(args().gradient_accumulation_steps);
  std::vector<std::vector<BatchRow>> rows(steps);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (BatchRow& row : options_.objective->rows(examples[i]))
      rows[i / (examples.size() / steps)].push_back(std::move(row));
  }
  return rows;
}

double Trainer::Impl::flops_of(const std::vector<std::vector<BatchRow>>& rows) const {
  double sum = 0;
  for (const TrainingFlops& flops : flops_) {
    for (const auto& minibatch : rows) sum += flops.of_rows(minibatch);
  }
  return sum;
}

LossContext Trainer::Impl::context(double items, double share, int64_t minibatch) const {
  LossContext context{.arguments = args(), .items = items, .share = share};
  context.dropout_key = RandomKey(static_cast<uint64_t>(args().seed))
                            .fold("dropout")
                            .fold(static_cast<uint64_t>(state.step))
                            .fold(static_cast<uint64_t>(minibatch));
  return context;
}

int Trainer::Impl::wish_to_stop() const {
  if (StopSignal::received() != 0) return StopSignal::received();
  const auto limit = args().time_limit_seconds();
  const std::chrono::duration<double> spent = Clock::now() - begin_;
  return is_first() && limit && spent.count() > *limit ? kTimeIsUp : 0;
}

bool Trainer::Impl::is_due(const std::optional<int64_t>& every) const {
  return every && *every > 0 && state.step % *every == 0;
}

bool Trainer::Impl::is_time_to_save() const {
  if (!args().save_interval_minutes) return false;
  const std::chrono::duration<double> since = Clock::now() - last_save_;
  const bool wanted = is_first() && since.count() > *args().save_interval_minutes * 60;
  return max_over_all(wanted ? 1 : 0, parallel(), device()) > 0;
}

Trainer::Impl::Step Trainer::Impl::run_step() {
  const auto begin = Clock::now();
  const std::vector<std::vector<BatchRow>> rows = next_rows();
  std::vector<double> counts;
  for (const auto& minibatch : rows) counts.push_back(options_.objective->count_items(minibatch));
  counts.push_back(flops_of(rows));
  counts = sum_over_batch(std::move(counts), parallel(), device());
  const double flops = counts.back();
  counts.pop_back();
  const int stop = static_cast<int>(max_over_all(wish_to_stop(), parallel(), device()));
  double items = 0;
  for (const double count : counts) items += count;
  items = std::max(items, 1.0);
  const std::map<std::string, double> totals = total_numbers(rows, parallel(), device());

  std::map<std::string, at::Tensor> sums;
  int64_t tokens = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Batch batch = make_batch(rows[i], batch_options(minibatch_rows()), parallel());
    tokens += batch.tokens;
    LossContext part = context(items, counts[i] / items, static_cast<int64_t>(i));
    part.totals = totals;
    const ObjectiveLoss out = options_.objective->loss(*options_.model, batch, part);
    (loss_scale_.value() == 1.0 ? out.loss : out.loss * loss_scale_.value()).backward();
    const auto add = [&](const std::string& name, const at::Tensor& value) {
      at::Tensor& sum = sums[name];
      sum = sum.defined() ? sum + value.detach() : value.detach();
    };
    add("loss", out.loss);
    if (!args().performance_mode) {
      for (const auto& [name, value] : out.metrics) add(name, value);
    }
  }
  GraphState gradients = take_gradients(state.graphstate);
  require<Error>(!gradients.empty(), "[trainer] the loss reaches no parameter: is everything frozen?");
  const at::NoGradGuard no_grad;
  if (loss_scale_.value() != 1.0) {
    for (const auto& [path, gradient] : gradients) gradient.div_(loss_scale_.value());
  }
  sums["grad_norm"] = optim::global_norm(gradients, state.placement());
  Step step{.metrics = to_host(sums), .stop = stop};
  const double norm = step.metrics.at("grad_norm");
  step.metrics["learning_rate"] = schedule_(state.step - skipped_);
  const bool finite = std::isfinite(norm) && std::isfinite(step.metrics.at("loss"));
  if (loss_scale_.value() != 1.0) step.metrics["loss_scale"] = loss_scale_.value();
  const bool scale_too_large = loss_scale_.update(finite);
  if (finite) {
    apply(std::move(gradients), norm);
    skipped_in_a_row_ = 0;
  } else {
    step.skipped = true;
    ++state.step;
    ++skipped_;
    if (!scale_too_large) skip(rows, step.metrics);
  }
  tokens_seen_ += tokens;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  step.metrics["step_tokens"] = static_cast<double>(tokens);
  step.metrics["num_tokens"] = static_cast<double>(tokens_seen_);
  step.metrics["tokens_per_second"] = static_cast<double>(tokens) / seconds;
  if (flops > 0) step.metrics["tflops"] = flops / seconds / 1e12;
  step.metrics["step_seconds"] = seconds;
  if (step.skipped) step.metrics["skipped"] = 1;
  if (!args().log_grad_norms) step.metrics.erase("grad_norm");
  if (memory_) step.metrics["memory_max"] = static_cast<double>(memory_->take_max());
  if (logs_batches()) {
    double sum = 0;
    for (const auto& minibatch : rows) sum += checksum(minibatch);
    step.metrics["batch_checksum"] = sum_over_batch({sum}, parallel(), device())[0];
  }
  return step;
}

void Trainer::Impl::apply(GraphState gradients, double norm) {
  if (args().clip_grad && norm > *args().clip_grad) {
    std::vector<at::Tensor> all;
    for (const auto& [path, gradient] : gradients) all.push_back(gradient);
    at::_foreach_mul_(all, *args().clip_grad / norm);
  }
  state = std::move(state).apply_gradients(std::move(gradients));
  if (ema_) ema_->update(state.graphstate);
}

// Nothing is learned from this step. Its batch is written out for a look, and too many in a row end the run.
void Trainer::Impl::skip(const std::vector<std::vector<BatchRow>>& rows, const Metrics& metrics) {
  ++skipped_in_a_row_;
  std::string written;
  if (directory()) {
    Json batch = Json::array();
    for (const auto& minibatch : rows) {
      for (const BatchRow& row : minibatch) batch.push_back(describe_row(row));
    }
    const int64_t rank = parallel() ? parallel()->mesh().rank() : 0;
    const fs::path path = *directory() / "skipped" / concat("step-", state.step, "-rank-", rank, ".json");
    make_directory(path.parent_path());
    write_file_atomically(path, Json::object({{"step", state.step},
                                              {"loss", metrics.at("loss")},
                                              {"grad_norm", metrics.at("grad_norm")},
                                              {"rows", batch}})
                                        .dump() +
                                    "\n");
    written = concat(" Its batch is in ", path.string(), ".");
  }
  const std::string what = concat("step ", state.step, " has a loss of ", metrics.at("loss"),
                                  " and a gradient norm of ", metrics.at("grad_norm"), ".", written);
  require<Error>(skipped_in_a_row_ <= args().max_skipped_steps, "[trainer] ", what, " ", skipped_in_a_row_,
                 " such steps in a row: the run stops (max_skipped_steps is ", args().max_skipped_steps,
                 "). A smaller learning_rate, clip_grad or warmup_steps may help.");
  if (is_first()) log::warning("[trainer] ", what, " The step is skipped.");
}

TrainResult Trainer::Impl::train() {
  const StopSignal signals;
  keep_freed_memory();
  begin_ = last_save_ = Clock::now();
  prepare();
  resume();
  if (!args().do_train) return evaluate_alone();
  start_at_step();
  if (args().track_memory > 0 && !args().performance_mode)
    memory_ = std::make_unique<MemoryTracker>(device(), args().track_memory);
  count_flops();
  TrainResult result{.stopped_by = has_stopped_early() ? "early stopping" : "steps"};
  if (is_first() && directory()) tidy_checkpoints(*directory(), state.step);
  if (is_first()) log_ = std::make_unique<RunLog>(options_, *options_.model, directory(), state.step, total_steps);
  if (state.step >= total_steps && is_first())
    log::info("[trainer] the run has its ", total_steps, " steps already; nothing is left to do.");
  if (has_stopped_early() && is_first())
    log::info("[trainer] the run was stopped early at step ", state.step,
              "; a larger early_stopping_patience goes on.");
  const TrainerHooks& hooks = options_.hooks;
  bool saved = true;
  while (state.step < total_steps && result.stopped_by == "steps") {
    if (hooks.before_step) hooks.before_step(state.step);
    Step step = run_step();
    saved = false;
    writer_.rethrow_error();
    result.metrics = step.metrics;
    if (hooks.after_step) hooks.after_step(state.step, step.metrics);
    if (log_) log_->step(state.step, step.metrics);
    if (hooks.on_log && is_due(args().log_steps)) hooks.on_log(state.step, step.metrics);
    const bool ends = state.step == total_steps;
    if (options_.eval_dataset && args().do_eval && (is_due(args().evaluation_steps) || ends)) {
      const Metrics metrics = evaluate();
      result.metrics.insert(metrics.begin(), metrics.end());
      note_evaluation(metrics);
      if (has_stopped_early() && !ends) result.stopped_by = "early stopping";
      if (best_step_ == state.step && directory() && is_due(args().save_steps) == false &&
          args().load_best_model_at_end) {
        save();
        saved = true;
      }
    }
    if (step.stop != 0) result.stopped_by = reason(step.stop);
    if (directory() && (is_due(args().save_steps) || step.stop != 0 || is_time_to_save())) {
      save();
      saved = true;
    }
    if (step.stop != 0 && is_first()) log::info("[trainer] ", result.stopped_by, ": the run ends at step ", state.step);
  }
  if (directory() && !saved && args().do_last_save) save();
  memory_.reset();
  finish_saving();
  if (args().load_best_model_at_end) load_best();
  result.step = state.step;
  if (last_saved_) result.checkpoint = checkpoint_path(*directory(), *last_saved_);
  if (log_) result.report = log_->finish(result.stopped_by, result.checkpoint);
  return result;
}

}  // namespace easydel
