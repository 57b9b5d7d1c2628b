// Losses of the tasks, from hidden states or logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>

#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/files/model_io.h"
#include "easydel/layers/linear.h"

namespace easydel {

class BaseModule;

struct Loss {
  at::Tensor loss;
  LossMetrics metrics;
};

// A final soft cap, scale or bias of the logits, where a family has one.
struct LogitOptions {
  double scale = 1.0;
  double softcap = 0.0;
  at::Tensor bias = {};  // added to them: this rank's part of the vocabulary
};

// What each position is to predict: the next label, where the config shifts.
at::Tensor lm_targets(const at::Tensor& labels, const at::Tensor& segment_ids, const LossConfig& config);

// hidden [B, T, D] and the output layer, [V, D]: the logits of all tokens are never held at once. On a mesh they are a
// rank's part, and the loss is that of all tokens.
Loss causal_lm_loss(const at::Tensor& hidden, const Linear& head, const at::Tensor& targets, const LossConfig& config,
                    const LogitOptions& logits = {}, const Parallel* parallel = nullptr);
// From logits [B, T, V] and labels.
Loss causal_lm_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& segment_ids,
                    const LossConfig& config);

// On a mesh, of a rank's rows; the loss is that of all rows. logits [B, labels]; labels [B] of class numbers, [B] of
// floats (regression) or [B, labels] of zeros and ones.
Loss classification_loss(const at::Tensor& logits, const at::Tensor& labels, const LossConfig& config,
                         const std::optional<std::string>& problem_type, const Parallel* parallel = nullptr);

// Of a batch with labels; from labels and logits, by the model's task. loss_kwargs changes keys of the config.
std::pair<ModelOutput, LossMetrics> compute_loss(const BaseModule& model, const ModelInputs& batch,
                                                 const LossConfig& config = {}, const Json& loss_kwargs = {});
std::pair<at::Tensor, LossMetrics> compute_loss(const BaseModule& model, const at::Tensor& labels,
                                                const at::Tensor& logits, const LossConfig& config = {},
                                                const Json& loss_kwargs = {});

}  // namespace easydel
