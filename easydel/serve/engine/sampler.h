// Chooses the next tokens of all rows of a step, each by the parameters of its own request.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
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

// Whether the choice needs no earlier tokens, no grammar and no more than one number of each score. Such requests are
// chosen together where the scores are, and the next step can be planned before the token is known.
bool needs_scores_alone(const ActiveRequest& request);

// The choices of a step. scores [rows, V] on any device. The token at a place is drawn with a number that depends only
// on the request's seed and the place. A draft is right if it is the token that is drawn there: so the answer is that
// without drafts.
class Choices {
 public:
  Choices() = default;
  Choices(const at::Tensor& scores_RV, std::vector<SampledPart> parts);

  // [rows] int64 where the scores are, for the next step to read: of rows that need scores alone, and have no drafts.
  const at::Tensor& tokens() const { return tokens_R_; }
  // Of parts[index], whose request has not ended. Waits for the device.
  Chosen take(std::size_t index);

 private:
  void choose_on_device(const at::Tensor& scores_RV);

  std::vector<SampledPart> parts_;
  std::vector<Chosen> on_host_;  // of each part, if it was chosen there
  at::Tensor tokens_R_;
  at::Tensor rows_3R_;  // of the device's choices: a token or -1, its log-probability and its rank, as float64
  std::optional<c10::Event> done_;
};

std::vector<Chosen> choose_tokens(const at::Tensor& scores_RV, const std::vector<SampledPart>& parts);

}  // namespace easydel::serve
