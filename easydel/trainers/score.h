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
  int64_t window = 0;  // tokens that the model sees at a time; 0: its context, at most 2048
  int64_t stride = 0;  // tokens between two windows; 0: half of the window
  bool show_progress = true;
};

// Every token but the first is predicted once: from as much of the text before it as the window holds, and from at
// least window - stride tokens where there are so many. ConfigError when the window does not fit the model.
TextScore score_text(const BaseModule& model, const std::vector<int64_t>& ids, const ScoreOptions& options = {});

// The window and the stride that these options mean for a model.
ScoreOptions resolved(ScoreOptions options, const BaseModule& model);

}  // namespace easydel
