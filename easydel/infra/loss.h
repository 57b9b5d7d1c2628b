// Losses of the tasks, from hidden states or logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "easydel/infra/loss_config.h"

namespace easydel {

struct Loss {
  at::Tensor loss;
  LossMetrics metrics;
};

// A final soft cap or scale of the logits, where a family has one.
struct LogitOptions {
  double scale = 1.0;
  double softcap = 0.0;
};

// hidden [B, T, D] and the head's weight [V, D]: the logits of all tokens are never held at once.
Loss causal_lm_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& labels, const at::Tensor& segment_ids, const LossConfig& config,
                    const LogitOptions& logits = {});
// The same from logits [B, T, V].
Loss causal_lm_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& segment_ids,
                    const LossConfig& config);

// logits [B, labels]; labels [B] of class numbers, [B] of floats (regression) or [B, labels] of zeros and ones.
Loss classification_loss(const at::Tensor& logits, const at::Tensor& labels, const LossConfig& config,
                         const std::optional<std::string>& problem_type);

}  // namespace easydel
