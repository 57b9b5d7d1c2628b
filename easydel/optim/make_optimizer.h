// An optimizer and its learning rate from the names and numbers of a config file, those of EasyDeL's TrainingArguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/optim/schedules.h"
#include "easydel/optim/transformation.h"

namespace easydel::optim {

struct OptimizerConfig {
  std::string optimizer = "adamw";
  std::string scheduler = "none";
  double learning_rate = 5e-5;
  std::optional<double> learning_rate_end = {};  // "linear" needs one; 0 for the others
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;                  // of the optimizer; required by every scheduler but "none"
  std::optional<int64_t> decay_steps = {};  // of "warmup_stable_decay"; default: a fifth of the steps after the warmup
  double weight_decay = 0.01;
  Mask weight_decay_mask = {};  // which parameters decay; empty: all
  std::optional<double> clip_grad = {};
  int64_t gradient_accumulation_steps = 1;
  Json extra_optimizer_kwargs = {};  // an object with the optimizer's own options, by the names of its struct
};

struct Optimizer {
  GradientTransformation tx;
  Schedule schedule;  // the learning rate
};

// clip_by_global_norm, the optimizer, weight decay times the learning rate, MultiSteps: as EasyDeL builds from the same
// names. ConfigError names a key that is unknown or whose value is out of range.
Optimizer make_optimizer(const OptimizerConfig& config);
Schedule make_schedule(const OptimizerConfig& config);

std::vector<std::string> optimizer_names();
std::vector<std::string> scheduler_names();

}  // namespace easydel::optim
