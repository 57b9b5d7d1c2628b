// The losses of pairs that DPO knows, by loss_type.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "easydel/trainers/objectives/objective_arguments.h"

namespace easydel {

// [P] each. A log-ratio is the policy's log-probability of an answer less the reference's; a length its tokens.
struct PairTerms {
  at::Tensor chosen_logratios, rejected_logratios, chosen_lengths, rejected_lengths;
  at::Tensor reference_margins;  // the reference's log-probability of the chosen answer less that of the rejected one
  at::Tensor counts = {};        // 1, or 0 for a pair that only fills the batch; undefined: all count
};
// [P]: the loss of each pair. aot and aot_pair compare the pairs of a minibatch with each other.
at::Tensor pair_loss(const PairTerms& terms, const DpoArguments& dpo);
// Of the cross-entropy of the chosen answers, which is added: rpo_alpha, and the weight of the loss "sft".
double likelihood_weight(const DpoArguments& dpo);

}  // namespace easydel
