// Chooses the next tokens of all rows of a step, each by the parameters of its own request.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "easydel/serve/engine/active_request.h"

namespace easydel::serve {

// Rows [first, first + drafts + 1) of a step's scores belong to one request: after the last known token, and after each
// of the drafts.
struct SampledPart {
  ActiveRequest* request = nullptr;
  int64_t first = 0;
  std::vector<int32_t> drafts = {};
};

struct Chosen {
  std::vector<int32_t> tokens;          // the drafts that are right, and the token after them
  std::vector<TokenLogprobs> logprobs;  // of these, if asked for
  bool is_valid = true;                 // false: no token is possible, or a score is not a number
};

// scores [rows, V] on any device. The token at a place is drawn with a number that depends only on the request's seed
// and the place. A draft is right if it is the token that is drawn there: so the answer is that without drafts.
std::vector<Chosen> choose_tokens(const at::Tensor& scores_RV, const std::vector<SampledPart>& parts);

}  // namespace easydel::serve
