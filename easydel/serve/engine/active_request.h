// A request while the engine works on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "easydel/core/random.h"
#include "easydel/serve/engine/request.h"
#include "easydel/serve/engine/scheduler.h"
#include "easydel/serve/grammar/grammar.h"
#include "easydel/serve/output/text_stream.h"

namespace easydel::serve {

struct ActiveRequest {
  RequestId id = 0;
  Request request;
  OutputCallback callback;
  Sequence* sequence = nullptr;  // the scheduler's
  std::unique_ptr<GrammarMatcher> matcher = {};
  std::optional<TextStream> text = {};
  RandomKey key = RandomKey(0);
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  int64_t max_length = 0;                           // of prompt and answer
  int64_t adapter = -1;                             // the runner's index
  int64_t awaited_row = 0;                          // of the started step's choices, where a token is awaited
  uint64_t prefix_key = 0;                          // see Sequence
  std::vector<int32_t> end_tokens = {};             // of the model; none with ignore_eos
  std::vector<TokenLogprobs> prompt_logprobs = {};  // as far as they are known
  std::vector<int64_t> image_places = {};           // tokens of the prompt that are of images
  std::vector<ImageSpan> image_spans = {};
  at::Tensor image_features = {};  // [places, …], once a step needs them
  // [3, tokens of the prompt] where images have positions by row and column; what follows is `position_shift` ahead
  // of its number of tokens.
  at::Tensor image_positions = {};
  int64_t position_shift = 0;

  const SamplingParams& sampling() const { return request.sampling; }
  int64_t output_tokens() const { return sequence->length() - sequence->prompt_tokens; }
  bool wants_all_logits() const {  // while the prompt is computed
    return sampling().prompt_logprobs && request.kind == RequestKind::Generate;
  }
};

}  // namespace easydel::serve
