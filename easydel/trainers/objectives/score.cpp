#include "easydel/trainers/objectives/score.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/core/progress/progress.h"

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

int64_t max_length_of(const BaseModule& model) {
  const int64_t context = model.config().max_position_embeddings;
  return context > 0 ? context : 2048;
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

std::vector<Continuation> rolling_windows(const std::vector<int64_t>& ids, int64_t prefix, int64_t max_length) {
  const auto count = static_cast<int64_t>(ids.size());
  const auto part = [&](int64_t begin, int64_t end) {
    return std::vector<int64_t>(ids.begin() + begin, ids.begin() + end);
  };
  std::vector<Continuation> windows;
  int64_t predicted = std::min(max_length, count);
  if (count > 0) windows.push_back({{prefix}, part(0, predicted)});
  while (predicted < count) {
    const int64_t end = std::min(count, predicted + max_length);
    windows.push_back({part(end - max_length - 1, predicted), part(predicted, end)});
    predicted = end;
  }
  return windows;
}

namespace {

// Rows of one call: inputs without the last token, and for each position what it is to predict.
struct ContinuationBatch {
  at::Tensor input_ids, labels;  // [rows, width]
};

ContinuationBatch make_batch(const std::vector<std::vector<int64_t>>& rows, const std::vector<int64_t>& predicted,
                             int64_t width) {
  const auto count = static_cast<int64_t>(rows.size());
  ContinuationBatch batch{at::zeros({count, width}, at::kLong), at::full({count, width}, -100, at::kLong)};
  auto ids = batch.input_ids.accessor<int64_t, 2>(), labels = batch.labels.accessor<int64_t, 2>();
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int64_t>& row = rows[static_cast<std::size_t>(i)];
    const auto length = static_cast<int64_t>(row.size()) - 1;
    for (int64_t j = 0; j < length; ++j) {
      ids[i][j] = row[static_cast<std::size_t>(j)];
      if (j >= length - predicted[static_cast<std::size_t>(i)]) labels[i][j] = row[static_cast<std::size_t>(j) + 1];
    }
  }
  return batch;
}

// What may be held of logits at once, where all of them are needed.
constexpr int64_t kLogitBytes = int64_t{256} << 20;
constexpr int64_t kBatchTokens = 4096;

}  // namespace

std::vector<ContinuationScore> score_continuations(const BaseModule& model, const std::vector<Continuation>& requests,
                                                   const ContinuationOptions& options) {
  const at::NoGradGuard no_grad;
  const int64_t longest = options.max_length > 0 ? options.max_length : max_length_of(model);
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size_of = [&](std::size_t i) {
    const auto size = static_cast<int64_t>(requests[i].context.size() + requests[i].ids.size());
    return std::min(size, longest + 1) - 1;
  };
  for (const Continuation& request : requests) {
    require<ConfigError>(
        !request.context.empty() && !request.ids.empty(),
        "[score_continuations] a request needs at least one context token and one token to predict; got ",
        request.context.size(), " and ", request.ids.size(), ".");
    require<ConfigError>(static_cast<int64_t>(request.ids.size()) <= longest, "[score_continuations] ",
                         request.ids.size(), " tokens must be predicted at once; the model's context is ", longest,
                         ".");
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  int64_t most_tokens = kBatchTokens;
  if (options.find_greedy)
    most_tokens =
        std::clamp<int64_t>(kLogitBytes / 4 / std::max<int64_t>(model.config().vocab_size, 1), 1, most_tokens);

  std::vector<ContinuationScore> scores(requests.size());
  Progress progress("eval", {.total = static_cast<int64_t>(requests.size()), .enabled = options.show_progress});
  for (std::size_t begin = 0; begin < order.size();) {
    const int64_t width = size_of(order[begin]);
    const int64_t most = options.batch_size > 0 ? options.batch_size : std::max<int64_t>(1, most_tokens / width);
    const std::size_t end = begin + std::min(order.size() - begin, static_cast<std::size_t>(most));
    std::vector<std::vector<int64_t>> rows;
    std::vector<int64_t> predicted;
    for (std::size_t i = begin; i < end; ++i) {
      const Continuation& request = requests[order[i]];
      std::vector<int64_t> row = request.context;
      row.insert(row.end(), request.ids.begin(), request.ids.end());
      row.erase(row.begin(), row.end() - (size_of(order[i]) + 1));
      rows.push_back(std::move(row));
      predicted.push_back(static_cast<int64_t>(request.ids.size()));
    }
    const ContinuationBatch batch = make_batch(rows, predicted, width);
    const at::Device device = model.options().device;
    ModelInputs inputs{.input_ids = batch.input_ids.to(device), .labels = batch.labels.to(device)};
    inputs.output_logits = options.find_greedy;
    inputs.loss_config = LossConfig{.auxiliary_loss_coefficient = 0.0, .shift_tokens = false, .reduction = "none"};
    const ModelOutput out = model(inputs);
    const at::Tensor nll =
        out.loss.reshape({static_cast<int64_t>(rows.size()), width}).to(at::kCPU, at::kDouble).sum(1);
    at::Tensor greedy;
    if (options.find_greedy) {
      const at::Tensor right = out.logits.argmax(-1).to(at::kCPU).eq(batch.labels);
      greedy = right.logical_or(batch.labels.eq(-100)).all(1);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const auto row = static_cast<int64_t>(i - begin);
      scores[order[i]].log_likelihood = -nll[row].item<double>();
      if (greedy.defined()) scores[order[i]].is_greedy = greedy[row].item<bool>();
    }
    progress.advance(static_cast<int64_t>(rows.size()));
    begin = end;
  }
  return scores;
}

}  // namespace easydel
