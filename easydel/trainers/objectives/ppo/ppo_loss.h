// The loss of ppo on the tokens of a minibatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "easydel/trainers/objectives/ppo/ppo_arguments.h"

namespace easydel {

// All [rows, T]; what is called old is of the generation.
struct PpoTerms {
  at::Tensor logps, old_logps, entropies;
  at::Tensor values, old_values;
  at::Tensor advantages, returns, mask;
};

struct PpoLoss {
  at::Tensor loss;
  std::map<std::string, at::Tensor> metrics;
};

// Sums over the tokens of the mask, divided by `tokens`: those of the step.
PpoLoss ppo_loss(const PpoTerms& terms, const PpoArguments& ppo, double tokens);

}  // namespace easydel
