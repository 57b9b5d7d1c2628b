// The losses of policies, as trl names and computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "easydel/trainers/objectives/policy_arguments.h"

namespace easydel {

// [rows, T] each, advantages [rows]. Where the mask is 0 nothing counts.
struct PolicyTerms {
  at::Tensor logps, old_logps;
  at::Tensor reference_logps;  // undefined: no divergence is added
  at::Tensor mask, entropies, advantages;
};

// What sums are divided by.
struct PolicyDivisors {
  double rows = 1;               // of the step
  double tokens = 1;             // of the step, that count
  double generation_tokens = 1;  // of a step of the generation, on average
  double share = 1;              // of this minibatch in the step
  int64_t max_completion_length = 1;
};

struct PolicyLoss {
  at::Tensor loss;
  std::map<std::string, at::Tensor> metrics;  // without gradient; they add up over minibatches
};

PolicyLoss grpo_loss(const PolicyTerms& terms, const GrpoArguments& grpo, const PolicyDivisors& divisors);
// Ratios of whole completions.
PolicyLoss rloo_loss(const PolicyTerms& terms, const RlooArguments& rloo, const PolicyDivisors& divisors);

}  // namespace easydel
