// How likely a model finds a text.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/infra/base_module.h"

namespace easydel {

struct TextScore {
  double nll = 0;  // nats
  int64_t tokens = 0;
};

struct ScoreOptions {
  int64_t window = 0;  // tokens of a window; 0: the model's context, at most 2048
  int64_t stride = 0;  // tokens between two windows; 0: half of the window
  bool show_progress = true;
};

// Every token but the first is predicted once: from as much of the text before it as the window holds, and from at
// least window - stride tokens if there are that many. ConfigError when the window does not fit the model.
TextScore score_text(const BaseModule& model, const std::vector<int64_t>& ids, const ScoreOptions& options = {});

// Tokens to be predicted, and those before them. Neither is empty.
struct Continuation {
  std::vector<int64_t> context, ids;
};

struct ContinuationScore {
  double log_likelihood = 0;
  bool is_greedy = false;  // every token was the most likely one; only if requested
};

struct ContinuationOptions {
  int64_t max_length = 0;  // maximum tokens of context and continuation; 0: max_length_of(model)
  int64_t batch_size = 0;  // rows at a time; 0: as many as have some thousand tokens together
  bool find_greedy = false;
  bool show_progress = true;
};

// In their order, computed from the longest to the shortest. Where there are too many tokens the first ones are left
// out. ConfigError on tokens to predict that do not fit. On a mesh all ranks call it together, and get the same.
std::vector<ContinuationScore> score_continuations(const BaseModule& model, const std::vector<Continuation>& requests,
                                                   const ContinuationOptions& options = {});

// The tokens of a text in windows that predict each once: the first from the prefix, those of the others from as many
// tokens before them as fit. Empty for no tokens.
std::vector<Continuation> rolling_windows(const std::vector<int64_t>& ids, int64_t prefix, int64_t max_length);

// max_position_embeddings of the config; 2048 when it has none.
int64_t max_length_of(const BaseModule& model);

// The window and the stride that these options mean for a model.
ScoreOptions resolved(ScoreOptions options, const BaseModule& model);

}  // namespace easydel
