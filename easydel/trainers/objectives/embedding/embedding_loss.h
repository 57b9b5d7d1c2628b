// From hidden states to vectors of texts, and their losses.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "easydel/trainers/objectives/embedding/embedding_arguments.h"

namespace easydel {

// Letters: N rows, B texts, T tokens, D features.

// [B, D] of hidden [B, T, D], whose mask [B, T] is 1 where a token counts.
//   first, last: that token; mean; weighted_mean: by place, 1 for the first; max: of each feature.
at::Tensor pool_tokens(const at::Tensor& hidden, const at::Tensor& mask, const std::string& strategy);

struct TextVectors {
  at::Tensor query, positive;  // [N, D]
  at::Tensor negative;         // [N, D]; undefined: none
  at::Tensor counts;           // [N], 1: the row counts, 0: it fills up the batch and is nobody's negative
};

struct EmbeddingLoss {
  at::Tensor loss;  // the sum over rows
  std::map<std::string, at::Tensor> metrics;
};

// infonce: -log softmax over all positives and negatives of query · candidate / temperature, at the row's own positive.
// triplet: max(0, |query - positive|² - |query - negative|² + margin). With matryoshka_dims: the mean of those of the
// first numbers of each vector, as vectors of length 1.
EmbeddingLoss embedding_loss(const TextVectors& vectors, const EmbeddingArguments& arguments);

}  // namespace easydel
