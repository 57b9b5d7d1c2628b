#include "easydel/trainers/score.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/progress.h"

namespace easydel {

ScoreOptions resolved(ScoreOptions options, const BaseModule& model) {
  const int64_t context = model.config().max_position_embeddings;
  if (options.window == 0) options.window = std::min<int64_t>(2048, context > 0 ? context : 2048);
  if (options.stride == 0) options.stride = std::max<int64_t>(1, options.window / 2);
  require<ConfigError>(options.window >= 2 && options.stride >= 1 && options.stride < options.window,
                       "[score_text] the window must be at least 2, and the stride below it; got ", options.window,
                       " and ", options.stride, ".");
  require<ConfigError>(context == 0 || options.window <= context, "[score_text] the window is ", options.window,
                       "; the model's context is ", context, ".");
  return options;
}

TextScore score_text(const BaseModule& model, const std::vector<int64_t>& ids, const ScoreOptions& given) {
  const at::NoGradGuard no_grad;
  const ScoreOptions options = resolved(given, model);
  const auto count = static_cast<int64_t>(ids.size());
  TextScore total;
  Progress progress("eval", {.total = count - 1, .unit = "tokens", .enabled = options.show_progress});
  const at::Tensor all = at::tensor(ids, at::kLong).to(model.options().device);
  for (int64_t begin = 0, scored = 1; scored < count; begin += options.stride) {
    const int64_t end = std::min(begin + options.window, count);
    const at::Tensor part = all.narrow(0, begin, end - begin).unsqueeze(0);
    at::Tensor labels = part.clone();
    labels.narrow(1, 0, scored - begin).fill_(-100);
    ModelInputs inputs{.input_ids = part, .labels = labels};
    inputs.loss_config = LossConfig{.reduction = "sum"};
    total.nll += model(inputs).loss.item<double>();
    total.tokens += end - scored;
    progress.advance(end - scored);
    scored = end;
  }
  return total;
}

}  // namespace easydel
