// Completions of the geometric mixture of two models: in each step p(token) is proportional to
// policy(token)^(1 - coefficient) reference(token)^coefficient.
#pragma once

#include <memory>

#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

// On one device. The reference computes the whole text anew for each token. Absent: the policy without its adapters.
RolloutFunction make_mixture_rollouts(std::shared_ptr<BaseModule> policy, std::shared_ptr<const BaseModule> reference,
                                      double coefficient, const AutoTokenizer& tokenizer,
                                      const RolloutArguments& arguments);

}  // namespace easydel
