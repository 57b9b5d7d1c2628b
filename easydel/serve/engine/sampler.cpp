#include "easydel/serve/engine/sampler.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>

#include "easydel/generation/sampling.h"
#include "easydel/operations/kernels/cuda/paged/paged_attention.h"
#include "easydel/serve/engine/row_sampler.h"
#include "easydel/serve/grammar/mask.h"

namespace easydel::serve {
namespace {

double uniform_of(const ActiveRequest& request, int64_t step) {
  return uniform_at(request.key.fold("generate"), 0, step);
}

void mask_scores(std::span<float> scores, GrammarMatcher& matcher, std::vector<int32_t>& words) {
  words.assign(mask_words(static_cast<int64_t>(scores.size())), 0);
  if (matcher.fill_mask(words)) apply_mask(scores, words);
}

// One request on the host, place after place: what is allowed at a place may depend on the token before it.
Chosen choose_on_host(const SampledPart& part, const at::Tensor& scores_RV) {
  ActiveRequest& request = *part.request;
  const SamplingParams& params = request.sampling();
  const auto vocab = static_cast<std::size_t>(scores_RV.size(1));
  const float* all = scores_RV.const_data_ptr<float>();
  const Sequence& sequence = *request.sequence;
  const std::span<const int32_t> known(sequence.tokens);
  const auto prompt = static_cast<std::size_t>(sequence.prompt_tokens);
  std::vector<int32_t> output(known.begin() + sequence.prompt_tokens, known.end());
  std::vector<int32_t> words, forbidden = request.end_tokens;
  forbidden.insert(forbidden.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  std::vector<float> scores;
  Chosen chosen;
  for (std::size_t place = 0; place <= part.drafts.size(); ++place) {
    const std::span<const float> given(all + (static_cast<std::size_t>(part.first) + place) * vocab, vocab);
    int32_t token = -1;
    if (params.is_greedy() && needs_scores_alone(request)) {
      token = greatest_token(given);
    } else {
      scores.assign(given.begin(), given.end());
      if (needs_adjusting(params)) adjust_scores(scores, params, {known.first(prompt), output}, forbidden);
      if (request.matcher) mask_scores(scores, *request.matcher, words);
      const auto drawn = static_cast<int64_t>(output.size()) + sequence.awaited;
      token = draw_token(scores, params, uniform_of(request, drawn));
    }
    if (token < 0) {
      chosen.is_valid = false;
      break;
    }
    if (params.logprobs) chosen.logprobs.push_back(find_logprobs(given, token, *params.logprobs));
    chosen.tokens.push_back(token);
    output.push_back(token);
    if (request.matcher) {
      request.matcher->accept(token);
      if (request.matcher->is_terminated()) break;
    }
    if (place < part.drafts.size() && part.drafts[place] != token) break;
  }
  return chosen;
}

// Top-k, top-p and min-p of rows that differ in them, in the order in which draw_token applies them.
at::Tensor filter_rows(at::Tensor scores, const at::Tensor& top_k, const at::Tensor& top_p, const at::Tensor& min_p) {
  const auto [sorted, order] = scores.sort(-1, /*descending=*/true);
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor least = sorted.gather(1, (top_k - 1).unsqueeze(1));
  at::Tensor kept = sorted.masked_fill(sorted < least, -infinity);
  const at::Tensor weights = kept.softmax(-1);
  const at::Tensor before = weights.cumsum(-1, at::kDouble) - weights;
  kept = kept.masked_fill(before >= top_p.unsqueeze(1), -infinity);
  kept = kept.masked_fill(weights < min_p.unsqueeze(1) * weights.narrow(1, 0, 1), -infinity);
  return at::empty_like(scores).scatter_(1, order, kept);
}

struct RowSettings {
  std::vector<int64_t> rows, top_k;
  std::vector<double> temperature, top_p, min_p, uniform;
  bool filters = false;
};

// The tokens of these rows, drawn on the device of the scores.
at::Tensor draw_on_device(const at::Tensor& scores_RV, const RowSettings& s) {
  const auto on_device = [&](const auto& values, at::ScalarType type) {
    return at::tensor(values, type).to(scores_RV.device(), /*non_blocking=*/true);
  };
  at::Tensor scores = scores_RV.index_select(0, on_device(s.rows, at::kLong)).to(at::kFloat);
  scores = scores / on_device(s.temperature, at::kFloat).unsqueeze(1);
  if (s.filters)
    scores = filter_rows(scores, on_device(s.top_k, at::kLong), on_device(s.top_p, at::kDouble),
                         on_device(s.min_p, at::kFloat));
  return sample_tokens(scores, on_device(s.uniform, at::kDouble));
}

// By plain operations: one argmax and one draw.
at::Tensor choose_in_steps(const at::Tensor& scores_RV, const RowSettings& drawn, bool wants_logprobs) {
  at::Tensor tokens = operations::cuda_paged::argmax_rows(scores_RV);
  if (!drawn.rows.empty())
    tokens =
        tokens.index_copy(0, at::tensor(drawn.rows, at::kLong).to(tokens.device()), draw_on_device(scores_RV, drawn));
  // A NaN counts as the greatest score; one number tells whether a row has one, or nothing that is possible.
  const at::Tensor highest = scores_RV.amax(-1).to(at::kDouble);
  const at::Tensor kept = at::where(highest.gt(-std::numeric_limits<double>::infinity()), tokens, -1);
  at::Tensor logprobs = at::zeros_like(highest), ranks = logprobs;
  if (wants_logprobs) {
    const at::Tensor scores = scores_RV.to(at::kFloat), own = scores.gather(1, tokens.clamp_min(0).unsqueeze(1));
    logprobs = (own - scores.logsumexp(-1, /*keepdim=*/true)).squeeze(1).to(at::kDouble);
    ranks = (scores.gt(own).sum(1) + 1).to(at::kDouble);
  }
  return at::stack({kept.to(at::kDouble), logprobs, ranks});
}

// A token or -1 of every row, its log-probability without a temperature, and its rank; the last two where they are
// wanted. Of the plain requests: what rows of others get means nothing.
at::Tensor choose_rows(const at::Tensor& scores_RV, const std::vector<SampledPart>& parts) {
  RowSettings drawn;
  bool wants_logprobs = false;
  const auto options = at::TensorOptions(at::kDouble).pinned_memory(true);
  const at::Tensor settings = at::zeros({2, scores_RV.size(0)}, options);  // temperatures and numbers of all rows
  auto* temperatures = settings.mutable_data_ptr<double>();
  for (const SampledPart& part : parts) {
    const SamplingParams& p = part.request->sampling();
    if (!needs_scores_alone(*part.request)) continue;
    wants_logprobs |= p.logprobs.has_value();
    if (p.is_greedy()) continue;
    const Sequence& sequence = *part.request->sequence;
    const int64_t first = sequence.expected_length() - sequence.prompt_tokens;
    for (std::size_t place = 0; place <= part.drafts.size(); ++place) {
      const int64_t row = part.first + static_cast<int64_t>(place);
      drawn.rows.push_back(row);
      drawn.temperature.push_back(p.temperature);
      drawn.top_k.push_back(p.top_k > 0 ? std::min(p.top_k, scores_RV.size(1)) : scores_RV.size(1));
      drawn.top_p.push_back(p.top_p);
      drawn.min_p.push_back(p.min_p);
      drawn.uniform.push_back(uniform_of(*part.request, first + static_cast<int64_t>(place)));
      drawn.filters |= p.top_k > 0 || p.top_p < 1 || p.min_p > 0;
      temperatures[row] = p.temperature;
      temperatures[scores_RV.size(0) + row] = drawn.uniform.back();
    }
  }
  std::optional<at::Tensor> chosen;
  if (!drawn.filters)
    chosen = operations::cuda_paged::sample_rows(scores_RV, settings.to(scores_RV.device(), /*non_blocking=*/true),
                                                 wants_logprobs);
  return chosen ? *chosen : choose_in_steps(scores_RV, drawn, wants_logprobs);
}

Chosen take_rows(const SampledPart& part, const at::Tensor& rows_3R) {
  Chosen chosen;
  const int64_t all = rows_3R.size(1);
  for (std::size_t place = 0; place <= part.drafts.size(); ++place) {
    const double* at = rows_3R.const_data_ptr<double>() + part.first + static_cast<int64_t>(place);
    const auto token = static_cast<int32_t>(*at);
    if (token < 0) {
      chosen.is_valid = false;
      break;
    }
    chosen.tokens.push_back(token);
    if (part.request->sampling().logprobs)
      chosen.logprobs.push_back({{token, static_cast<float>(at[all])}, static_cast<int64_t>(at[2 * all]), {}});
    if (place < part.drafts.size() && part.drafts[place] != token) break;
  }
  return chosen;
}

std::vector<Chosen> choose_on_cpu(const at::Tensor& scores_RV, const std::vector<SampledPart>& parts) {
  std::vector<Chosen> all(parts.size());
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      all[static_cast<std::size_t>(i)] = choose_on_host(parts[static_cast<std::size_t>(i)], scores_RV);
  });
  return all;
}

}  // namespace

bool needs_scores_alone(const ActiveRequest& request) {
  const SamplingParams& p = request.sampling();
  return !needs_adjusting(p) && !request.matcher && p.logprobs.value_or(0) == 0 && p.typical_p >= 1;
}

Choices::Choices(const at::Tensor& scores_RV, std::vector<SampledPart> parts) : parts_(std::move(parts)) {
  if (!scores_RV.is_cpu()) {
    choose_on_device(scores_RV);
    return;
  }
  on_host_ = choose_on_cpu(scores_RV.to(at::kFloat).contiguous(), parts_);
  tokens_R_ = at::zeros({scores_RV.size(0)}, at::kLong);
  auto* tokens = tokens_R_.mutable_data_ptr<int64_t>();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (on_host_[i].is_valid) tokens[parts_[i].first] = on_host_[i].tokens.front();
  }
}

void Choices::choose_on_device(const at::Tensor& scores_RV) {
  on_host_.resize(parts_.size());
  const auto is_plain = [](const SampledPart& part) { return needs_scores_alone(*part.request); };
  if (std::any_of(parts_.begin(), parts_.end(), is_plain)) {
    const at::Tensor chosen = choose_rows(scores_RV, parts_);
    tokens_R_ = chosen[0].clamp_min(0).to(at::kLong);
    rows_3R_ = at::empty_like(chosen, chosen.options().device(at::kCPU).pinned_memory(true));
    rows_3R_.copy_(chosen, /*non_blocking=*/true);
    done_.emplace(scores_RV.device().type());
    done_->record(c10::impl::VirtualGuardImpl(scores_RV.device().type()).getStream(scores_RV.device()));
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const SampledPart& part = parts_[i];
    if (is_plain(part)) continue;
    const auto rows = static_cast<int64_t>(part.drafts.size()) + 1;
    on_host_[i] = choose_on_host({part.request, 0, part.drafts},
                                 scores_RV.narrow(0, part.first, rows).to(at::kCPU, at::kFloat).contiguous());
  }
}

Chosen Choices::take(std::size_t index) {
  const SampledPart& part = parts_[index];
  if (!rows_3R_.defined() || !needs_scores_alone(*part.request)) return std::move(on_host_[index]);
  done_->synchronize();
  return take_rows(part, rows_3R_);
}

std::vector<Chosen> choose_tokens(const at::Tensor& scores_RV, const std::vector<SampledPart>& parts) {
  Choices choices(scores_RV, parts);
  std::vector<Chosen> all;
  for (std::size_t i = 0; i < parts.size(); ++i) all.push_back(choices.take(i));
  return all;
}

}  // namespace easydel::serve
