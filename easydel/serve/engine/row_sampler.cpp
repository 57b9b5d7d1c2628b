#include "easydel/serve/engine/row_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace easydel::serve {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t token;
  double weight;  // proportional to its probability
};

double total_weight(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

// Best first; among equal ones the smaller token.
bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

// Sorts the best ones to the front, at least until `enough` of (sum of weights so far, weight) holds; the number that
// were looked at. More are sorted step by step: of a large vocabulary mostly few matter.
template <class Enough>
std::size_t sort_until(std::vector<Candidate>& candidates, const Enough& enough) {
  std::size_t sorted = 0, step = 64;
  double sum = 0;
  while (sorted < candidates.size()) {
    const std::size_t end = std::min(candidates.size(), sorted + step);
    const auto at = [&](std::size_t i) { return candidates.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < candidates.size()) std::nth_element(at(sorted), at(end), candidates.end(), is_likelier);
    std::sort(at(sorted), at(end), is_likelier);
    for (; sorted < end; ++sorted) {
      if (enough(sum, candidates[sorted].weight)) return sorted;
      sum += candidates[sorted].weight;
    }
    step *= 4;
  }
  return sorted;
}

void keep_top_k(std::vector<Candidate>& candidates, int64_t top_k) {
  if (top_k <= 0 || static_cast<std::size_t>(top_k) >= candidates.size()) return;
  const auto last = candidates.begin() + top_k - 1;
  std::nth_element(candidates.begin(), last, candidates.end(), is_likelier);
  const double least = last->weight;  // equal ones stay, as in generate
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < least; });
}

void keep_top_p(std::vector<Candidate>& candidates, double top_p) {
  if (top_p >= 1) return;
  const double limit = top_p * total_weight(candidates);
  candidates.resize(std::max<std::size_t>(1, sort_until(candidates, [&](double sum, double) { return sum >= limit; })));
}

void keep_min_p(std::vector<Candidate>& candidates, double min_p) {
  if (min_p <= 0) return;
  double best = 0;
  for (const Candidate& candidate : candidates) best = std::max(best, candidate.weight);
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < min_p * best; });
}

// The tokens whose information is nearest to the mean, up to a mass of typical_p.
void keep_typical(std::vector<Candidate>& candidates, double typical_p) {
  if (typical_p >= 1) return;
  const double total = total_weight(candidates);
  double mean = 0;
  for (const Candidate& c : candidates) {
    if (c.weight > 0) mean -= c.weight / total * std::log(c.weight / total);
  }
  const auto distance = [&](const Candidate& c) {
    return c.weight > 0 ? std::abs(-std::log(c.weight / total) - mean) : std::numeric_limits<double>::infinity();
  };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const double x = distance(a), y = distance(b);
    return x != y ? x < y : a.token < b.token;
  });
  double sum = 0;
  std::size_t kept = 0;
  while (kept < candidates.size() && sum < typical_p * total) sum += candidates[kept++].weight;
  candidates.resize(std::max<std::size_t>(1, kept));
}

}  // namespace

bool needs_adjusting(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0 || !p.logit_bias.empty() ||
         p.min_tokens > 0;
}

void adjust_scores(std::span<float> scores, const SamplingParams& params, const TokenHistory& history,
                   std::span<const int32_t> forbidden) {
  for (const auto& [token, bias] : params.logit_bias)
    scores[static_cast<std::size_t>(token)] += static_cast<float>(bias);
  if (params.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(params.repetition_penalty);
    std::unordered_set<int32_t> seen(history.prompt.begin(), history.prompt.end());
    seen.insert(history.output.begin(), history.output.end());
    for (const int32_t token : seen) {
      float& score = scores[static_cast<std::size_t>(token)];
      score = score < 0 ? score * penalty : score / penalty;
    }
  }
  if (params.presence_penalty != 0 || params.frequency_penalty != 0) {
    std::unordered_map<int32_t, int64_t> counts;
    for (const int32_t token : history.output) ++counts[token];
    for (const auto& [token, count] : counts) {
      scores[static_cast<std::size_t>(token)] -=
          static_cast<float>(params.presence_penalty + params.frequency_penalty * static_cast<double>(count));
    }
  }
  if (static_cast<int64_t>(history.output.size()) < params.min_tokens) {
    for (const int32_t token : forbidden) scores[static_cast<std::size_t>(token)] = kImpossible;
  }
}

int32_t greatest_token(std::span<const float> scores) {
  // Lanes without a dependency between them, so that the compiler uses vectors.
  constexpr std::size_t kLanes = 32;
  std::array<float, kLanes> best;
  best.fill(kImpossible);
  bool is_number = true;
  std::size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float score = scores[i + lane];
      best[lane] = score > best[lane] ? score : best[lane];
      is_number &= score == score;
    }
  }
  float greatest = *std::max_element(best.begin(), best.end());
  for (; i < scores.size(); ++i) {
    greatest = std::max(greatest, scores[i]);
    is_number &= scores[i] == scores[i];
  }
  if (!is_number || greatest == kImpossible) return -1;
  return static_cast<int32_t>(std::find(scores.begin(), scores.end(), greatest) - scores.begin());
}

int32_t draw_token(std::span<float> scores, const SamplingParams& params, double uniform) {
  const int32_t best = greatest_token(scores);
  if (best < 0 || params.is_greedy()) return best;
  const float highest = scores[static_cast<std::size_t>(best)];
  if (std::isinf(highest)) return best;
  std::vector<Candidate> candidates;
  candidates.reserve(scores.size());
  // Weights are relative to the best token; those that are 0 in float32 cannot be drawn.
  const double inverse = 1.0 / params.temperature;
  for (std::size_t token = 0; token < scores.size(); ++token) {
    const double weight = std::exp(static_cast<float>((scores[token] - highest) * inverse));
    if (weight > 0) candidates.push_back({static_cast<int32_t>(token), weight});
  }
  keep_top_k(candidates, params.top_k);
  keep_top_p(candidates, params.top_p);
  keep_min_p(candidates, params.min_p);
  keep_typical(candidates, params.typical_p);
  // In the order of the vocabulary, so that a draw does not depend on how the candidates were found.
  const auto comes_first = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (!std::is_sorted(candidates.begin(), candidates.end(), comes_first))
    std::sort(candidates.begin(), candidates.end(), comes_first);
  const double threshold = uniform * total_weight(candidates);
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += candidate.weight;
    if (sum > threshold) return candidate.token;
  }
  return candidates.back().token;
}

TokenLogprobs find_logprobs(std::span<const float> scores, int32_t token, int64_t count) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - highest);
  const double base = highest + std::log(sum);
  const auto logprob = [&](int32_t id) {
    return TokenLogprob{id, static_cast<float>(scores[static_cast<std::size_t>(id)] - base)};
  };
  TokenLogprobs out;
  out.chosen = logprob(token);
  const float own = scores[static_cast<std::size_t>(token)];
  out.rank = std::count_if(scores.begin(), scores.end(), [&](float score) { return score > own; }) + 1;
  if (count == 0) return out;
  std::vector<int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<int64_t>(count, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (auto id = ids.begin(); id != end; ++id) out.top.push_back(logprob(*id));
  return out;
}

}  // namespace easydel::serve
