// What a trainer holds; see trainer.h.
#pragma once

#include <chrono>

#include "easydel/data/loader.h"
#include "easydel/optim/params_ema.h"
#include "easydel/optim/schedules.h"
#include "easydel/trainers/checkpoints.h"
#include "easydel/trainers/loss_scale.h"
#include "easydel/trainers/memory_tracker.h"
#include "easydel/trainers/run_log.h"
#include "easydel/trainers/trainer.h"
#include "easydel/trainers/training_flops.h"

namespace easydel {

class Trainer::Impl {
 public:
  explicit Impl(TrainerOptions options);

  TrainResult train();
  Metrics evaluate();
  std::filesystem::path save();

  State state;
  int64_t total_steps = 0;

 private:
  using Clock = std::chrono::steady_clock;
  // trainer_setup.cpp
  void check() const;
  void prepare();  // the objective, once
  void count_flops();
  void apply_lora();
  void freeze_parameters();
  void make_optimizer();
  void make_loader();
  int64_t count_packed_rows() const;
  void resume();
  void start_at_step();
  void load_weights_from(const std::filesystem::path& checkpoint);
  // trainer.cpp
  struct Step {
    Metrics metrics;
    bool skipped = false;
    int stop = 0;  // a signal that some rank got, or kTimeIsUp
  };
  Step run_step();
  std::vector<std::vector<BatchRow>> next_rows();                         // of each minibatch, this rank's
  double flops_of(const std::vector<std::vector<BatchRow>>& rows) const;  // a step's, of this rank's rows
  void apply(GraphState gradients, double norm);
  void skip(const std::vector<std::vector<BatchRow>>& rows, const Metrics& metrics);
  LossContext context(double items, double share, int64_t minibatch) const;
  int wish_to_stop() const;
  bool is_time_to_save() const;
  bool is_due(const std::optional<int64_t>& every) const;
  // trainer_save.cpp
  Json trainer_file();
  void finish_saving();
  // trainer_evaluate.cpp
  TrainResult evaluate_alone();
  void note_evaluation(const Metrics& metrics);
  bool has_stopped_early() const;
  void load_best();

  const Parallel* parallel() const { return options_.model->parallel().get(); }
  bool is_first() const;
  at::Device device() const { return options_.model->options().device; }
  const TrainingArguments& args() const { return options_.arguments; }
  std::optional<std::filesystem::path> directory() const;
  int64_t minibatch_rows() const { return args().minibatch_size() * options_.objective->rows_per_example(); }
  BatchOptions batch_options(int64_t rows) const;

  TrainerOptions options_;
  optim::GradientTransformation tx_;
  optim::Schedule schedule_ = 0.0;
  std::unique_ptr<data::Loader> loader_;
  std::optional<optim::ParamsEma> ema_;
  LossScale loss_scale_;
  std::unique_ptr<RunLog> log_;       // of rank 0
  std::unique_ptr<MemoryTracker> memory_;
  std::vector<TrainingFlops> flops_;  // of the model, and of those that a step runs beside it
  BackgroundWriter writer_;
  Clock::time_point begin_ = Clock::now(), last_save_ = begin_;

  bool prepared_ = false;

  // What a checkpoint remembers beside the state.
  int64_t tokens_seen_ = 0, skipped_ = 0, skipped_in_a_row_ = 0;
  std::optional<double> best_;
  std::optional<int64_t> best_step_;
  int64_t evaluations_without_gain_ = 0;
  std::optional<int64_t> last_saved_;
};

}  // namespace easydel
