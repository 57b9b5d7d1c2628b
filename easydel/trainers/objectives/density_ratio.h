// How much likelier a prompt is among those with a wanted answer than among those with an unwanted one, by a classifier
// of the reference's vectors: underlying distribution matching of bco (https://huggingface.co/papers/2404.04656).
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/trainers/objectives/objective.h"

namespace easydel {

// The mean of the hidden states of each row's first `prompt_tokens` tokens, [rows, D] in float64 on the CPU. All ranks
// call it together.
at::Tensor prompt_vectors(const BaseModule& model, const Batch& batch);

// Logistic regression with both classes of the same weight and a penalty of half the squared weights: scikit-learn's
// LogisticRegression(class_weight="balanced").
class DensityRatio {
 public:
  // vectors [n, D] and labels [n] of ones and zeros, in float64. ConfigError unless there are both.
  void fit(const at::Tensor& vectors, const at::Tensor& labels);
  // p / (1 - p), within the limits: [n].
  at::Tensor operator()(const at::Tensor& vectors, double least, double most) const;

 private:
  at::Tensor weights_;  // [D + 1], the last one the intercept
};

}  // namespace easydel
