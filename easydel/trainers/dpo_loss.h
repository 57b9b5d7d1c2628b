// The losses of pairs that DPO knows, by loss_type.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "easydel/trainers/objective_arguments.h"

namespace easydel {

// [P] each. A log-ratio is the policy's log-probability of an answer less the reference's; a length its tokens.
struct PairTerms {
  at::Tensor chosen_logratios, rejected_logratios, chosen_lengths, rejected_lengths;
};
// [P]: the loss of each pair.
at::Tensor pair_loss(const PairTerms& terms, const DpoArguments& dpo);
// NotSupportedError names the types there are.
void require_pair_loss(const std::string& loss_type);

}  // namespace easydel
