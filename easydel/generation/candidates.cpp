#include "easydel/generation/candidates.h"

#include <ATen/ATen.h>

#include <limits>

#include "easydel/generation/sampling.h"

namespace easydel {

at::Tensor Candidates::sample(const at::Tensor& uniform) const {
  const at::Tensor drawn = sample_tokens(scores, uniform);
  if (!tokens.defined()) return drawn;
  const at::Tensor ids = tokens.gather(1, drawn.clamp_min(0).unsqueeze(1)).squeeze(1);
  return at::where(drawn.ge(0), ids, drawn);
}

at::Tensor Candidates::all_scores(int64_t vocab_size) const {
  if (!tokens.defined()) return scores;
  return at::full({scores.size(0), vocab_size}, -std::numeric_limits<double>::infinity(), scores.options())
      .scatter_(1, tokens, scores);
}

Candidates find_candidates(const GenerationConfig& config, LogitsProcessorList& warpers, const at::Tensor& input_ids,
                           const at::Tensor& scores) {
  // Scores that equal the last of the best k stay, too: in 16 bits there can be many.
  const int64_t count = 2 * std::min(*config.top_k, scores.size(1)) + 64;
  const bool compact = *config.top_k > 0 && !config.top_h && count <= scores.size(1) / 4;
  if (!compact) return {warpers(input_ids, scores), {}};
  const auto [best, ids] = scores.topk(count, -1, /*largest=*/true, /*sorted=*/false);
  // In the order of the vocabulary, so that a draw does not depend on how the candidates were found.
  const auto [tokens, order] = ids.sort(-1);
  return {warpers(input_ids, best.gather(-1, order)), tokens};
}

}  // namespace easydel
