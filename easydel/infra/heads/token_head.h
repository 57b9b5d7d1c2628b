// Scores for each token from hidden states, and their loss: vocabularies and labels alike.
#pragma once

#include "easydel/infra/base_module.h"
#include "easydel/infra/loss.h"

namespace easydel {

// [..., out features] of a rank's own hidden states [..., D], over all outputs. A bias in the options is this rank's
// part of it.
at::Tensor token_logits(const BaseModule& module, const Linear& head, const at::Tensor& hidden,
                        const LogitOptions& options = {});
// Those of hidden [B, T, D] whose logits are asked for: logits_to_keep, logit_indices.
at::Tensor kept_tokens(const at::Tensor& hidden, const PreparedInputs& inputs);
// The part of a bias over the vocabulary that this rank computes with.
at::Tensor own_part(const std::shared_ptr<Parameter>& bias, DType dtype);

// Logits unless only the loss is asked for, and with targets the loss, of `hidden` [B, T, D]; into `out`.
void add_token_outputs(const BaseModule& module, const Linear& head, const at::Tensor& hidden,
                       const PreparedInputs& inputs, const LogitOptions& options, ModelOutput& out);

// ShapeError unless labels are one for each token of a batch like `tokens` [B, T, ...]; makes them the targets.
void take_token_labels(const BaseModule& module, const at::Tensor& tokens, PreparedInputs& inputs);

}  // namespace easydel
