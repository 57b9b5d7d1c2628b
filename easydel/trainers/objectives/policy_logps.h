// Log-probabilities of the tokens that a policy wrote, at the temperature that it wrote them with.
#pragma once

#include "easydel/trainers/objectives/objective.h"

namespace easydel {

struct PolicyLogps {
  // [rows, T]: of the label after each place, and the entropy of the distribution it was drawn from; 0 where there is
  // no label.
  at::Tensor tokens, entropies;
  at::Tensor log_squares;  // of that distribution, the logarithm of the sum of its squares; undefined unless asked for
  ObjectiveLoss routers;   // what they add; no loss where there are none
};
// Of the whole batch, on every rank. Logits are held for some tokens at a time; backward computes them again. Entropies
// have a gradient where it is asked for, squares never.
PolicyLogps policy_logps(const BaseModule& model, const Batch& batch, const LossContext& context, double temperature,
                         bool with_dropout, bool with_entropy_gradient = false, bool with_squares = false);

}  // namespace easydel
