// The training loop: saves, evaluates and logs between steps.
#include <csignal>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/run_identity.h"
#include "easydel/trainers/run/stop_signal.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::Steps: return "steps";
    case StopReason::EarlyStopping: return "early stopping";
    case StopReason::TimeLimit: return "time limit";
    case StopReason::Sigint: return "SIGINT";
    case StopReason::Sigterm: return "SIGTERM";
    case StopReason::NotTrained: return "do_train is false";
  }
  return "steps";
}

int exit_status(StopReason reason) {
  if (reason == StopReason::Sigint) return 128 + SIGINT;
  return reason == StopReason::Sigterm ? 128 + SIGTERM : 0;
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

bool Trainer::Impl::save_is_due(StopReason stop) const {
  if (!directory()) return false;
  const bool ends = state.step == total_steps && args().do_last_save;
  return is_due(args().save_steps) || ends || stop != StopReason::Steps || is_time_to_save();
}

bool Trainer::Impl::evaluation_is_due() const {
  if (!options_.eval_dataset || !args().do_eval || state.step == 0) return false;
  if (state.step == total_steps) return true;
  return is_due(args().evaluation_steps ? args().evaluation_steps : std::optional(steps_per_epoch_));
}

// For a run that has nothing left to do.
void Trainer::Impl::say_what_is_done(StopReason stopped_by) const {
  if (!is_first()) return;
  if (stopped_by == StopReason::EarlyStopping) {
    log::info("[trainer] the run was stopped early at step ", state.step,
              "; increase early_stopping_patience to continue.");
  } else if (state.step >= total_steps) {
    log::info("[trainer] the run is at step ", state.step, " of ", total_steps,
              last_saved_ ? concat(" (", last_saved_->path.string(), ")") : "",
              "; nothing is left to do. Increase --steps (max_training_steps) to continue.");
  }
}

// After the checkpoint of the step, if it has one: a failure here loses nothing.
void Trainer::Impl::evaluate_step(TrainResult& result) {
  if (is_first()) StopSignal::is_doing(StopSignal::Doing::Evaluation, state.step, directory().has_value());
  Metrics metrics;
  try {
    metrics = evaluate();
  } catch (...) {
    if (evaluation_rows_failed_ && directory() && !is_saved()) save();
    if (evaluation_rows_failed_) finish_saving();
    if (is_first() && is_saved())
      log::error("[trainer] the evaluation failed; the weights of step ", state.step, " are in ",
                 last_saved_->path.string(), ".");
    throw;
  }
  result.metrics.insert(metrics.begin(), metrics.end());
  note_evaluation(metrics);
  evaluated_step_ = state.step;
  if (is_saved()) {
    update_trainer_file();
  } else if (best_step_ == state.step && directory() && args().load_best_model_at_end) {
    save();
  }
}

void Trainer::Impl::begin_log(int64_t first_step, bool is_evaluated) {
  if (args().previews.generation_interval)
    previews_ = std::make_unique<Previews>(options_.trainer_type, args(), *options_.tokenizer, options_.model,
                                           *options_.train_dataset);
  if (!is_first()) return;
  log_ = std::make_unique<RunLog>(options_, *options_.model, directory(), first_step, total_steps, is_evaluated);
  if (args().push.push_to_hub) push_ = std::make_unique<CheckpointPush>(args());
}

// Samples are worth less than a run: the first failure, on any rank, is the last one.
void Trainer::Impl::preview() {
  Json written;
  bool failed = false;
  try {
    written = previews_->write(state.step);
  } catch (const std::exception& error) {  // a device without memory for it is no Error
    failed = true;
    log::warning("[trainer] no sample generations after step ", state.step, " or later: ", error.what());
  }
  if (max_over_all(failed ? 1 : 0, parallel(), device()) > 0) previews_.reset();
  if (log_ && !failed) log_->previewed(state.step, written);
}

TrainResult Trainer::Impl::train() {
  const StopSignal signals;
  keep_freed_memory();
  begin_ = last_save_ = Clock::now();
  const std::shared_ptr<RunLock> lock = take_directory();
  prepare();
  if (directory()) run_ = describe_run(options_);
  resume();
  if (!args().do_train) return evaluate_alone();
  start_at_step();
  if (args().track_memory > 0 && !args().performance_mode)
    memory_ = std::make_unique<MemoryTracker>(device(), args().track_memory);
  count_flops();
  estimate_memory();
  if (const auto steps = args().profiled_steps(); steps && is_first())
    profiler_ = std::make_unique<StepProfiler>(*steps, *directory(), device());
  const int64_t first_step = state.step;
  const bool is_evaluated = evaluated_step_ == first_step;
  if (is_first() && directory()) tidy_checkpoints(*directory(), state.step);
  begin_log(first_step, is_evaluated);
  TrainResult result{.stopped_by = has_stopped_early() ? StopReason::EarlyStopping : StopReason::Steps};
  say_what_is_done(result.stopped_by);
  // A run that ended between a checkpoint and its evaluation.
  if (is_saved() && evaluation_is_due() && !is_evaluated) {
    evaluate_step(result);
    if (has_stopped_early()) result.stopped_by = StopReason::EarlyStopping;
  }
  const TrainerHooks& hooks = options_.hooks;
  while (state.step < total_steps && result.stopped_by == StopReason::Steps) {
    if (hooks.before_step) hooks.before_step(state.step);
    say_next_step(state.step + 1);
    if (profiler_) profiler_->before(state.step + 1);
    Step step = run_step();
    options_.objective->after_step(*options_.model, state.step);
    if (profiler_) profiler_->after(state.step);
    writer_.rethrow_error();
    result.metrics = step.metrics;
    result.stopped_by = step.stop;
    if (hooks.after_step) hooks.after_step(state.step, step.metrics);
    if (log_) log_->step(state.step, step.metrics);
    if (hooks.on_log && is_due(args().log_steps)) hooks.on_log(state.step, step.metrics);
    if (save_is_due(step.stop)) save();
    if (previews_ && is_due(args().previews.generation_interval)) preview();
    if (step.stop == StopReason::Steps && evaluation_is_due()) {
      if (state.step == total_steps) finish_saving();
      evaluate_step(result);
      result.stopped_by = stop_asked_for();
      if (has_stopped_early() && state.step < total_steps) result.stopped_by = StopReason::EarlyStopping;
    }
  }
  const bool interrupted = exit_status(result.stopped_by) != 0 || result.stopped_by == StopReason::TimeLimit;
  if (interrupted && is_first())
    log::info("[trainer] ", to_string(result.stopped_by), ": the run ends at step ", state.step);
  if (directory() && !is_saved() && state.step > first_step && (args().do_last_save || interrupted)) save();
  memory_.reset();
  if (profiler_) profiler_->finish(state.step);
  finish_saving();
  if (args().load_best_model_at_end) load_best();
  result.step = state.step;
  if (last_saved_) result.checkpoint = last_saved_->path;
  if (log_) result.report = log_->finish(to_string(result.stopped_by), result.checkpoint);
  if (push_) {
    push_->finish(last_saved_);
    // What was being uploaded when it had to go.
    const auto kept = best_step_ ? std::vector<int64_t>{*best_step_} : std::vector<int64_t>{};
    if (args().save_total_limit) remove_old_checkpoints(*directory(), *args().save_total_limit, kept);
  }
  return result;
}

}  // namespace easydel
