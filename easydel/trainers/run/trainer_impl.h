// What a trainer holds; see trainer.h.
#pragma once

#include <chrono>

#include "easydel/data/loader.h"
#include "easydel/optim/params_ema.h"
#include "easydel/optim/schedules.h"
#include "easydel/trainers/logs/memory_tracker.h"
#include "easydel/trainers/logs/run_log.h"
#include "easydel/trainers/logs/step_profiler.h"
#include "easydel/trainers/logs/training_flops.h"
#include "easydel/trainers/previews/previews.h"
#include "easydel/trainers/run/checkpoint_push.h"
#include "easydel/trainers/run/checkpoints.h"
#include "easydel/trainers/run/loss_scale.h"
#include "easydel/trainers/trainer.h"

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
  void estimate_memory();
  void apply_lora();
  void freeze_parameters();
  void require_trainable_weights() const;
  void make_float8();
  void make_optimizer();
  void make_loader();
  int64_t count_packed_rows() const;
  // trainer_resume.cpp
  std::shared_ptr<RunLock> take_directory();
  void resume();
  void start_at_step();
  void require_same_run(const std::filesystem::path& checkpoint, const Json& saved) const;
  void load_weights_from(const std::filesystem::path& checkpoint);
  // trainer_run.cpp
  void say_what_is_done(StopReason stopped_by) const;
  void evaluate_step(TrainResult& result);
  bool evaluation_is_due() const;
  bool save_is_due(StopReason stop) const;
  void begin_log(int64_t first_step, bool is_evaluated);
  void preview();
  bool is_saved() const { return last_saved_ && last_saved_->step == state.step; }
  // trainer.cpp
  struct Step {
    Metrics metrics;
    bool skipped = false;
    StopReason stop = StopReason::Steps;  // Steps: go on
  };
  Step run_step();
  ObjectiveLoss loss_of(const Batch& batch, const LossContext& context) const;  // in training
  std::vector<std::vector<BatchRow>> next_rows();                               // of each minibatch, this rank's
  // trainer_generate.cpp
  void generate();                         // the rows of the next steps
  std::vector<BatchRow> take_generated();  // of the next step
  Json generated_file() const;             // what a checkpoint between two generations has of them
  void restore_generated(const std::filesystem::path& checkpoint);
  bool is_generating() const { return options_.objective->steps_of_generation(args()) > 0; }
  double flops_of(const std::vector<std::vector<BatchRow>>& rows) const;  // a step's, of this rank's rows
  void apply(GraphState gradients, GraphState along, double norm);        // along: the companion's
  void skip(const std::vector<std::vector<BatchRow>>& rows, const Metrics& metrics);
  LossContext context(double items, double share, int64_t minibatch) const;
  void say_next_step(int64_t step) const;
  StopReason stop_asked_for() const;  // by a signal that some rank got, or by the clock; Steps: go on
  bool is_time_to_save() const;
  bool is_due(const std::optional<int64_t>& every) const;
  // trainer_save.cpp
  Json trainer_file();
  void update_trainer_file();  // of the checkpoint of this step
  void finish_saving();
  // trainer_evaluate.cpp
  TrainResult evaluate_alone();
  std::function<std::optional<data::Example>()> evaluation_examples(const TrainingArguments& arguments) const;
  using AddMetric = std::function<void(const std::string& name, const at::Tensor& value, double weight)>;
  double evaluate_generated(std::vector<data::Example> prompts, int64_t index, const AddMetric& add);
  void note_evaluation(const Metrics& metrics);
  bool has_stopped_early() const;
  void load_best();

  const Parallel* parallel() const { return options_.model->parallel().get(); }
  bool is_first() const;
  at::Device device() const { return options_.model->options().device; }
  const TrainingArguments& args() const { return options_.arguments; }
  std::optional<std::filesystem::path> directory() const;
  int64_t minibatch_rows() const { return args().minibatch_size() * options_.objective->rows_per_example(args()); }
  BatchOptions batch_options(int64_t rows, const TrainingArguments& arguments) const;

  static constexpr const char *kCompanionFolder = "value", *kReferenceFolder = "reference";  // of a checkpoint

  TrainerOptions options_;
  std::optional<State> companion_;  // of the model that the objective trains along
  optim::GradientTransformation tx_;
  optim::Schedule schedule_ = 0.0;
  std::unique_ptr<data::Loader> loader_;
  std::optional<optim::ParamsEma> ema_;
  LossScale loss_scale_;
  std::unique_ptr<RunLog> log_;  // of rank 0
  std::unique_ptr<MemoryTracker> memory_;
  std::unique_ptr<StepProfiler> profiler_;  // of rank 0
  int64_t memory_estimate_ = 0;
  std::vector<TrainingFlops> flops_;      // of the model, and of the other models that a step runs
  std::unique_ptr<Previews> previews_;    // on every rank
  std::unique_ptr<CheckpointPush> push_;  // of rank 0
  BackgroundWriter writer_;               // gone before what its writes hand on to
  Clock::time_point begin_ = Clock::now(), last_save_ = begin_;

  bool prepared_ = false;
  bool evaluation_rows_failed_ = false;  // on some rank, and all know of it
  int64_t steps_per_epoch_ = 0;          // 0: not needed
  Json run_;                             // describe_run

  // What a checkpoint stores in addition to the state.
  GeneratedRows generated_;
  int64_t generated_step_ = 0;  // steps that were trained on them
  int64_t tokens_seen_ = 0, skipped_ = 0, skipped_in_a_row_ = 0;
  std::optional<double> best_;
  std::optional<int64_t> best_step_;
  int64_t evaluations_without_gain_ = 0;
  std::optional<int64_t> evaluated_step_;  // the last one
  std::optional<CheckpointDirectory> last_saved_;
};

}  // namespace easydel
