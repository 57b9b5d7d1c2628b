// Chooses the next token of one row of scores on the host. No torch.
#pragma once

#include <cstdint>
#include <span>

#include "easydel/serve/engine/request.h"

namespace easydel::serve {

// What penalties look at.
struct TokenHistory {
  std::span<const int32_t> prompt, output;
};

// Bias, penalties and tokens that must not come (end tokens before min_tokens), in place.
void adjust_scores(std::span<float> scores, const SamplingParams& params, const TokenHistory& history,
                   std::span<const int32_t> forbidden);
bool needs_adjusting(const SamplingParams& params);

// The best token, the first of equal ones; -1 when none is possible or a score is not a number.
int32_t greatest_token(std::span<const float> scores);

// A token drawn by temperature, top-k, top-p, min-p and typical-p with the number `uniform` in [0, 1); -1 as above.
// Scores are written over.
int32_t draw_token(std::span<float> scores, const SamplingParams& params, double uniform);

// The log-probability of `token`, and the `count` best.
TokenLogprobs find_logprobs(std::span<const float> scores, int32_t token, int64_t count);

}  // namespace easydel::serve
