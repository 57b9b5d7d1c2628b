#include "easydel/generation/sampling_processors.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace easydel {
namespace {

// The k-th best score of each row, [B, 1].
at::Tensor kth_best(const at::Tensor& scores, int64_t k) {
  const int64_t count = std::min(k, scores.size(-1));
  return std::get<0>(scores.topk(count)).narrow(-1, count - 1, 1);
}

// Entropy of each row, [B]. Impossible tokens add nothing.
at::Tensor entropy(const at::Tensor& scores) {
  const at::Tensor logits = scores - scores.logsumexp(-1, /*keepdim=*/true);
  return -(logits.clamp_min(std::numeric_limits<float>::lowest()) * logits.softmax(-1)).sum(-1);
}

// top_p without sorting a large vocabulary, where its best tokens have that much probability in every row; undefined
// otherwise. Only on the CPU, which can look at once, and where sorting is slow.
at::Tensor keep_few(const at::Tensor& scores, double top_p, int64_t keep) {
  constexpr int64_t kCandidates = 1024;
  if (!scores.is_cpu() || scores.size(-1) < 4 * kCandidates) return {};
  const auto [best, order] = scores.topk(kCandidates);
  const at::Tensor probabilities = (best - scores.logsumexp(-1, /*keepdim=*/true)).exp();
  const at::Tensor better = probabilities.cumsum(-1, at::kDouble) - probabilities;
  at::Tensor kept = better.lt(top_p);
  if (kept.narrow(-1, kCandidates - 1, 1).any().item<bool>() || scores.isnan().any().item<bool>()) return {};
  kept.narrow(-1, 0, std::min(keep, kCandidates)).fill_(true);
  return at::full_like(scores, kNegativeInfinity)
      .scatter_(-1, order, best.masked_fill(kept.logical_not(), kNegativeInfinity));
}

}  // namespace

at::Tensor TemperatureLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  return scores / temperature_;
}

at::Tensor TopKLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  return scores.masked_fill(scores < kth_best(scores, top_k_), kNegativeInfinity);
}

at::Tensor TopPLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  if (const at::Tensor kept = keep_few(scores, top_p_, keep_); kept.defined()) return kept;
  // From the worst up: what has no more than 1 - top_p in all is left out.
  const auto [sorted, order] = scores.sort(-1, /*descending=*/false);
  at::Tensor remove = sorted.softmax(-1).cumsum(-1).le(1 - top_p_);
  const int64_t keep = std::min(keep_, scores.size(-1));
  remove.narrow(-1, scores.size(-1) - keep, keep).fill_(false);
  return scores.masked_fill(remove.scatter(1, order, remove), kNegativeInfinity);
}

at::Tensor TopHLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  constexpr int64_t kCandidates = 100;
  const auto [best, order] = scores.topk(std::min(kCandidates, scores.size(-1)));
  const at::Tensor probabilities = best.softmax(-1);
  const at::Tensor terms = -probabilities * probabilities.log();
  at::Tensor keep = terms.cumsum(-1).le((entropy(best) * top_h_).unsqueeze(-1));
  keep.narrow(-1, 0, 1).fill_(true);
  return scores.masked_fill(at::ones_like(scores, at::kBool).scatter(1, order, keep.logical_not()), kNegativeInfinity);
}

at::Tensor MinPLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  const at::Tensor probabilities = scores.softmax(-1);
  at::Tensor remove = probabilities < min_p_ * probabilities.amax(-1, /*keepdim=*/true);
  const int64_t keep = std::min(keep_, scores.size(-1));
  remove.scatter_(-1, std::get<1>(probabilities.topk(keep)), false);
  return scores.masked_fill(remove, kNegativeInfinity);
}

at::Tensor TypicalLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  const at::Tensor normalized = scores.log_softmax(-1);
  const at::Tensor mean = -(normalized * normalized.exp()).nansum(-1, /*keepdim=*/true);
  const auto [distance, order] = (-normalized - mean).abs().sort(-1, /*descending=*/false);
  const at::Tensor mass = scores.gather(-1, order).softmax(-1).cumsum(-1);
  const at::Tensor last = mass.lt(mass_).sum(1, /*keepdim=*/true).clamp_max(scores.size(-1) - 1);
  at::Tensor remove = distance > distance.gather(1, last);
  remove.narrow(-1, 0, std::min(keep_, scores.size(-1))).fill_(false);
  return scores.masked_fill(remove.scatter(1, order, remove), kNegativeInfinity);
}

at::Tensor EpsilonLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  const at::Tensor probabilities = scores.softmax(-1);
  return scores.masked_fill(probabilities.lt(epsilon_).logical_and(scores < kth_best(scores, keep_)),
                            kNegativeInfinity);
}

at::Tensor EtaLogitsWarper::operator()(const at::Tensor&, const at::Tensor& scores) {
  // In float32 as transformers computes it: the bounds decide which tokens stay.
  const auto epsilon = static_cast<float>(epsilon_);
  const at::Tensor least = (std::sqrt(epsilon) * (-entropy(scores)).exp()).clamp_max(epsilon).unsqueeze(-1);
  return scores.masked_fill(scores.softmax(-1).lt(least).logical_and(scores < kth_best(scores, keep_)),
                            kNegativeInfinity);
}

}  // namespace easydel
