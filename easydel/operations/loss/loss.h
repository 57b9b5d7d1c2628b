// Cross-entropy over a vocabulary, from logits or directly from hidden states without materializing all logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "easydel/operations/linear/weight_access.h"

namespace easydel::operations {

enum class Reduction { Mean, Sum, None };

// A vocabulary sharded over ranks: this rank's part begins at `begin`. Logits are not exchanged: maxima and sums of
// rows are combined by all_reduce, in place.
struct VocabularySplit {
  int64_t begin = 0;
  int64_t parts = 1;
  std::function<void(const at::Tensor&, bool maximum)> all_reduce;
};

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  double z_loss = 0.0;  // coefficient of logsumexp(logits)^2, added to the loss
  Reduction reduction = Reduction::Mean;
  at::Tensor token_weights;    // labels' shape: each token's weight in the loss
  at::Tensor divisor;          // a scalar divisor for Mean, e.g. the token count of all ranks; else the sum of weights
  double logit_scale = 1.0;    // logits are multiplied by it first
  double logit_softcap = 0.0;  // then softcap * tanh(logits / softcap); 0: no cap
  int64_t chunk_size = 0;      // tokens at a time in linear_cross_entropy; 0: by size of the vocabulary
  std::optional<VocabularySplit> split = {};  // logits and weights are this rank's part
  WeightAccessPtr weight_access = {};         // of linear_cross_entropy's weight, if it is sharded;
  int64_t vocabulary = 0;                     // then the rows of the full weight
};

// All but `loss` are without gradient.
struct CrossEntropyOutput {
  at::Tensor loss;         // z-loss included; one number, or the labels' shape with Reduction::None
  at::Tensor z_loss;       // its part of the loss
  at::Tensor num_tokens;   // labels that are not ignore_index
  at::Tensor weight_sum;   // of these tokens; equals num_tokens without token_weights
  at::Tensor num_correct;  // tokens whose label has the highest logit

  at::Tensor accuracy() const;  // 0 when there are no tokens
};

// logits [..., V], labels [...] integer. Computed in float32 or better. Without valid tokens the mean is 0, not NaN.
// ShapeError on mismatched shapes and, on the CPU, on a label outside [0, V).
CrossEntropyOutput cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                 const CrossEntropyOptions& options = {});

// The same for logits = hidden @ weight^T + bias, with hidden [..., D], weight [V, D], bias [V] or undefined. Processes
// tokens in chunks. With Mean and Sum the gradients are computed in forward, while a chunk's logits exist (three matrix
// products in total, instead of four with recomputation; backward only scales them); with None backward recomputes.
CrossEntropyOutput linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                                        const at::Tensor& labels, const CrossEntropyOptions& options = {});

// The target of each position: the next label, ignore_index in the last position and, with segment_ids, at the end of
// every segment.
at::Tensor shift_labels(const at::Tensor& labels, int64_t ignore_index = -100, const at::Tensor& segment_ids = {});

}  // namespace easydel::operations
