// Outputs of one token of each row, and answers that are a span of a row's tokens.
#pragma once

#include <functional>

#include "easydel/infra/base_module.h"

namespace easydel {

// head() of the hidden state of the token last_tokens [B] of each row; `hidden` is [B, T, D]. On a mesh the token lies
// on one of the ranks that share a row, and all of them get the result.
at::Tensor row_outputs(const BaseModule& module, const at::Tensor& hidden, const at::Tensor& last_tokens,
                       const BatchPart& part, const std::function<at::Tensor(const at::Tensor& rows)>& head);

// Dropout of [B, D] by the row in the full batch: the same on any mesh.
at::Tensor drop_rows(const at::Tensor& x, double p, RandomKey key, const BatchPart& part);

// ShapeError unless labels are one or several for each of `rows`; makes them the targets.
void take_row_labels(const BaseModule& module, int64_t rows, PreparedInputs& inputs);
// The loss of logits [B, labels] of a rank's rows; into `out`.
void add_row_loss(const BaseModule& module, const PreparedInputs& inputs, const BatchPart& part, ModelOutput& out);

// start_logits and end_logits [B, T] from logits [B, T, 2] of a rank's tokens, and with start_positions and
// end_positions the mean of both losses. Positions behind the last token do not count.
void add_span_outputs(const BaseModule& module, const at::Tensor& logits, const PreparedInputs& inputs,
                      const BatchPart& part, ModelOutput& out);
void take_span_labels(const BaseModule& module, int64_t rows, PreparedInputs& inputs);

}  // namespace easydel
