#include "easydel/infra/heads/row_head.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/loss.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/layers/forward_context.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

int64_t own_rows(const BaseModule& module, const BatchPart& part, int64_t rows) {
  return module.parallel() ? std::clamp<int64_t>(part.given_batch - part.first_row, 0, rows) : rows;
}

}  // namespace

at::Tensor row_outputs(const BaseModule& module, const at::Tensor& hidden, const at::Tensor& last_tokens,
                       const BatchPart& part, const std::function<at::Tensor(const at::Tensor& rows)>& head) {
  const at::Tensor each = at::arange(hidden.size(0), last_tokens.options());
  const auto& parallel = module.parallel();
  if (!parallel) return head(hidden.index({each, last_tokens}));
  // The ranks without the token compute with zeros, and their results count nothing.
  const at::Tensor place = last_tokens - part.first_token;
  const at::Tensor own = place.ge(0).logical_and(place.lt(hidden.size(1))).unsqueeze(1);
  const at::Tensor rows = hidden.index({each, place.clamp(0, hidden.size(1) - 1)}) * own;
  return collectives::sum(head(rows) * own, parallel->group(parallel->sequence()));
}

at::Tensor drop_rows(const at::Tensor& x, double p, RandomKey key, const BatchPart& part) {
  if (p == 0) return x;
  BatchPart rows = part;
  rows.given_tokens = 1;
  rows.first_token = 0;
  return drop(x.unsqueeze(1), p, key, rows).squeeze(1);
}

void take_row_labels(const BaseModule& module, int64_t rows, PreparedInputs& inputs) {
  inputs.targets = inputs.labels;
  require<ShapeError>(!inputs.labels.defined() || (inputs.labels.dim() >= 1 && inputs.labels.size(0) == rows), "[",
                      module.type_name(), "] labels must be [", rows, "] or [", rows, ", ",
                      module.config().num_labels(), "]; got ",
                      inputs.labels.defined() ? inputs.labels.sizes() : at::IntArrayRef(), ".");
}

void add_row_loss(const BaseModule& module, const PreparedInputs& inputs, const BatchPart& part, ModelOutput& out) {
  if (!inputs.targets.defined()) return;
  const int64_t rows = own_rows(module, part, out.logits.size(0));
  Loss loss = classification_loss(out.logits.narrow(0, 0, rows), inputs.targets.narrow(0, 0, rows),
                                  inputs.loss_config.value_or(LossConfig()), module.config().problem_type,
                                  module.parallel().get());
  out.loss = std::move(loss.loss);
  out.metrics = std::move(loss.metrics);
}

void take_span_labels(const BaseModule& module, int64_t rows, PreparedInputs& inputs) {
  require<ConfigError>(!inputs.labels.defined(), "[", module.type_name(),
                       "] takes no labels; an answer is start_positions and end_positions.");
  const bool start = inputs.start_positions.defined(), end = inputs.end_positions.defined();
  require<ConfigError>(start == end, "[", module.type_name(),
                       "] start_positions and end_positions must be given together; got only ",
                       start ? "start_positions" : "end_positions", ".");
  if (!start) return;
  for (const at::Tensor* positions : {&inputs.start_positions, &inputs.end_positions}) {
    require<ShapeError>(positions->numel() == rows, "[", module.type_name(),
                        "] start_positions and end_positions must be [", rows, "]; got ", positions->sizes(), ".");
  }
  inputs.targets = at::stack({inputs.start_positions.reshape({-1}), inputs.end_positions.reshape({-1})}, 1);
}

void add_span_outputs(const BaseModule& module, const at::Tensor& logits, const PreparedInputs& inputs,
                      const BatchPart& part, ModelOutput& out) {
  const auto& parallel = module.parallel();
  at::Tensor whole = logits;  // [B, T, 2] of a rank's rows and all tokens
  if (parallel && part.sequence_sharded) {
    const std::vector<int64_t> sizes(static_cast<std::size_t>(parallel->mesh().size(parallel->sequence())),
                                     logits.size(1));
    whole =
        collectives::gather(logits, 1, sizes, parallel->group(parallel->sequence())).narrow(1, 0, part.given_tokens);
  }
  out.start_logits = whole.select(2, 0).contiguous();
  out.end_logits = whole.select(2, 1).contiguous();
  if (!inputs.targets.defined()) return;
  const int64_t rows = own_rows(module, part, whole.size(0)), tokens = whole.size(1);
  LossConfig config = inputs.loss_config.value_or(LossConfig());
  config.ignore_index = tokens;
  at::Tensor sum;
  for (int64_t i = 0; i < 2; ++i) {
    const at::Tensor targets = inputs.targets.select(1, i).narrow(0, 0, rows).clamp(0, tokens);
    Loss loss = classification_loss((i == 0 ? out.start_logits : out.end_logits).narrow(0, 0, rows), targets, config,
                                    "single_label_classification", parallel.get());
    sum = i == 0 ? loss.loss : sum + loss.loss;
    if (i == 0) out.metrics = std::move(loss.metrics);
  }
  out.loss = sum / 2;
  out.metrics.loss = out.loss.detach();
}

}  // namespace easydel
