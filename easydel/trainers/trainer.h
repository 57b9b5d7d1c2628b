// The training loop: batches in, steps of the optimizer, logs, evaluations and checkpoints out.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/data/dataset.h"
#include "easydel/infra/state/state.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/arguments/training_arguments.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {

using Metrics = std::map<std::string, double>;

// Called on every rank, at the same moments.
struct TrainerHooks {
  std::function<void(int64_t step)> before_step = {};
  std::function<void(int64_t step, const Metrics& metrics)> after_step = {};
  std::function<void(int64_t step, const Metrics& metrics)> on_log = {};
  std::function<void(int64_t step, const std::filesystem::path& directory)> on_save = {};
  std::function<void(int64_t step, const Metrics& metrics)> on_evaluate = {};
};

class RunLock;

// How rows get ready. The numbers that are computed do not depend on it.
struct RowOptions {
  std::optional<int64_t> prefetch_workers = {};  // threads; 0: rows are prepared on demand; absent: as
                                                 // the arguments say
  int64_t prefetch_buffer_size = 4;              // rows that are kept ready for each row of the batch; 0 likewise
  bool pad_to_max_length = false;  // every batch has max_length tokens in a row, not as many as its longest row
};

struct TrainerOptions {
  std::string trainer_type = "sft";
  TrainingArguments arguments;
  std::shared_ptr<BaseModule> model;
  std::shared_ptr<Objective> objective;
  std::shared_ptr<const AutoTokenizer> tokenizer;
  std::shared_ptr<const data::Dataset> train_dataset, eval_dataset;  // of evaluation: may be absent
  std::filesystem::path tokenizer_directory;                         // its files go into every checkpoint; empty: none
  optim::GradientTransformation tx = {};                             // absent: as the arguments say
  TrainerHooks hooks = {};
  RowOptions rows = {};
  Json run_config = {};                // shown in the report
  std::shared_ptr<RunLock> lock = {};  // of save_directory, on the first rank; absent: train() takes it
};

enum class StopReason { Steps, EarlyStopping, TimeLimit, Sigint, Sigterm, NotTrained };
std::string to_string(StopReason reason);  // "steps", "early stopping", "SIGTERM", …
int exit_status(StopReason reason);        // of a process that ends with the run: 128 + a signal, else 0

struct TrainResult {
  int64_t step = 0;
  Metrics metrics;  // the last ones
  std::filesystem::path checkpoint, report;
  StopReason stopped_by = StopReason::Steps;
};

// On a mesh every rank makes one and calls the same functions.
class Trainer {
 public:
  // ConfigError on invalid arguments, a batch that the mesh cannot split, an empty data set.
  explicit Trainer(TrainerOptions options);
  ~Trainer();

  // From the step of the checkpoint that the arguments name, or from 0. ConfigError when save_directory has one of
  // another run and the arguments do not name it; IoError when another run is writing there, or when a checkpoint
  // cannot be written: those that were there before stay.
  TrainResult train();
  Metrics evaluate();

  const State& state() const;
  int64_t total_steps() const;
  // Writes a checkpoint now.
  std::filesystem::path save();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The model that is trained. Its task says what rows are: those of sft are pairs of texts for an encoder-decoder.
struct TrainedModel {
  const BaseModule* model = nullptr;  // absent: a decoder, or a classifier of texts
  std::filesystem::path files = {};   // the directory of its processor, where it has one
};

// By the name of its trainer. `other` is the second model: the reference of dpo, the teacher of
// distillation.
std::unique_ptr<Objective> make_objective(const std::string& trainer_type,
                                          std::shared_ptr<const BaseModule> other = nullptr,
                                          const TrainedModel& trained = {});

}  // namespace easydel
