// The tokens that a draw can give: with top_k few of a large vocabulary, so that the warpers have less to sort.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/generation/logits_processor.h"

namespace easydel {

// Letters: B rows, C candidates.
struct Candidates {
  at::Tensor scores;  // [B, C], after the warpers
  at::Tensor tokens;  // [B, C] ascending; undefined: candidate c is token c

  // As sample_tokens does it with the scores of all tokens, up to rounding.
  at::Tensor sample(const at::Tensor& uniform_B) const;
  at::Tensor all_scores(int64_t vocab_size) const;  // [B, V], minus infinity for the others
};

// Of the scores before the warpers. `config` is the one that these were made for.
Candidates find_candidates(const GenerationConfig& config, LogitsProcessorList& warpers, const at::Tensor& input_ids_BT,
                           const at::Tensor& scores_BV);

}  // namespace easydel
