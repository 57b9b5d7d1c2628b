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
#include "easydel/infra/state.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objective.h"
#include "easydel/trainers/training_arguments.h"

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
  Json run_config = {};  // shown in the report
};

struct TrainResult {
  int64_t step = 0;
  Metrics metrics;  // the last ones
  std::filesystem::path checkpoint, report;
  std::string stopped_by;  // "steps", "early stopping", "SIGTERM", "time limit"
};

// On a mesh every rank makes one and calls the same functions.
class Trainer {
 public:
  // ConfigError on arguments that make no sense, a batch that the mesh cannot deal, an empty data set.
  explicit Trainer(TrainerOptions options);
  ~Trainer();

  // From the step of the checkpoint that the arguments name, or from 0. IoError when a checkpoint cannot be written:
  // those that were there before stay.
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

// The objective of a trainer's type, with the models that it needs beside the one that learns.
std::unique_ptr<Objective> make_objective(const std::string& trainer_type, const TrainingArguments& arguments = {},
                                          std::shared_ptr<const BaseModule> reference = {},
                                          std::shared_ptr<const BaseModule> teacher = {});

}  // namespace easydel
