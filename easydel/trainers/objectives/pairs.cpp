#include "easydel/trainers/objectives/pairs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/infra/config/decoder_config.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

using Ids = std::vector<int64_t>;

void cut(Ids& ids, std::optional<int64_t> length, bool keep_end) {
  if (!length || static_cast<int64_t>(ids.size()) <= *length) return;
  if (keep_end) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(*length));
  ids.resize(static_cast<std::size_t>(*length));
}

BatchRow row_of(const data::Example& example, const std::string& side) {
  BatchRow row = answer_row(example.others.at(side + "_ids"), example.others.at(side + "_labels"));
  row.numbers["nll_tokens"] = 0;
  return row;
}

}  // namespace

BatchRow answer_row(Ids ids, Ids labels) {
  BatchRow row{.input_ids = std::move(ids), .labels = std::move(labels)};
  const auto first = std::find_if(row.labels.begin(), row.labels.end(), [](int64_t l) { return l != data::kNoLoss; });
  row.numbers["counts"] = 1;
  row.numbers["prompt_tokens"] = static_cast<double>(first - row.labels.begin());
  row.numbers["completion_tokens"] = static_cast<double>(row.labels.end() - first);
  return row;
}

Batch every_row(const Batch& batch, int64_t first, int64_t step) {
  if (step == 1) return batch;
  const auto take = [&](const at::Tensor& x) {
    return x.defined() ? x.slice(0, first, std::nullopt, step).contiguous() : x;
  };
  Batch part;
  part.input_ids = take(batch.input_ids);
  part.labels = take(batch.labels);
  part.attention_mask = take(batch.attention_mask);
  part.segment_ids = take(batch.segment_ids);
  part.position_ids = take(batch.position_ids);
  for (const auto& [name, values] : batch.numbers) part.numbers.emplace(name, take(values));
  for (const auto& [name, values] : batch.series) part.series.emplace(name, take(values));
  return part;
}

data::Transform reference_free_pairs(const std::string& trainer_type, const AutoTokenizer& tokenizer,
                                     const PairLimits& limits) {
  limits.validate(trainer_type);
  const data::Transform tokenize = data::make_orpo_transform(
      tokenizer, {.codec = {}, .max_length = limits.whole(), .truncation_mode = "keep_start"});
  return [tokenize, limits](const data::Row& row) -> std::optional<data::Example> {
    const std::optional<data::Example> ids = tokenize(row);
    if (!ids) return std::nullopt;
    data::Example example;
    for (const std::string side : {"chosen", "rejected"}) {
      const Ids& all = ids->others.at(side + "_input_ids");
      const Ids& labels = ids->others.at(side + "_labels");
      const auto prompt = std::find_if(labels.begin(), labels.end(), [](int64_t l) { return l != data::kNoLoss; });
      const auto middle = all.begin() + (prompt - labels.begin());
      if (middle == all.end()) return std::nullopt;  // the prompt leaves no room for an answer
      LabelledIds joined = join_answer({all.begin(), middle}, {middle, all.end()}, limits);
      example.others[side + "_ids"] = std::move(joined.ids);
      example.others[side + "_labels"] = std::move(joined.labels);
    }
    return example;
  };
}

void PairLimits::validate(const std::string& trainer_type) const {
  if (!max_length || !max_prompt_length) return;
  require<ConfigError>(*max_prompt_length < *max_length, "[", trainer_type,
                       "] max_prompt_length must be less than max_length; got ", *max_prompt_length, " and ",
                       *max_length, ". Without it (null) rows are truncated as a whole.");
}

LabelledIds join_answer(Ids prompt, Ids answer, const PairLimits& limits) {
  const bool keep_end = limits.truncation_mode == "keep_end";
  if (limits.max_prompt_length) {
    cut(prompt, limits.max_prompt_length, keep_end);
    std::optional<int64_t> room = limits.max_completion_length;
    if (!room && limits.max_length) room = *limits.max_length - *limits.max_prompt_length;
    cut(answer, room, false);
  }
  LabelledIds row{.ids = prompt, .labels = Ids(prompt.size(), data::kNoLoss)};
  row.ids.insert(row.ids.end(), answer.begin(), answer.end());
  row.labels.insert(row.labels.end(), answer.begin(), answer.end());
  cut(row.ids, limits.max_length, keep_end);
  cut(row.labels, limits.max_length, keep_end);
  return row;
}

std::vector<BatchRow> pair_rows(const data::Example& example) {
  BatchRow chosen = row_of(example, "chosen");
  chosen.numbers["nll_tokens"] = count_targets(chosen);
  return {std::move(chosen), row_of(example, "rejected")};
}

void require_token(const BaseModule& model, std::optional<int64_t> id, const std::string& what) {
  const int64_t size = model.config().vocab_size;
  require<ConfigError>(!id || (*id >= 0 && *id < size), what, " must be a token of the model's vocabulary, 0 to ",
                       size - 1, "; got ", id.value_or(0), ".");
}

double count_pairs(const std::vector<BatchRow>& rows) {
  double count = 0;
  for (const BatchRow& row : rows) count += row.numbers.at("counts");
  return count / 2;
}

at::Tensor RowLogps::sums() const { return tokens.sum(1); }

void RowLogps::add_routers(ObjectiveLoss& out) const {
  if (!routers.loss.defined()) return;
  out.loss = out.loss + routers.loss;
  out.metrics.insert(routers.metrics.begin(), routers.metrics.end());
}

RowLogps row_logps(const BaseModule& model, const Batch& batch, const LossContext& context, bool with_dropout) {
  ModelInputs inputs = batch.inputs();
  LossConfig config = context.arguments.loss();
  // Nothing but the labels' own log-probabilities.
  config.reduction = "none";
  config.label_smoothing = 0;
  config.z_loss_coefficient = 0;
  config.auxiliary_loss_coefficient = 0.0;
  inputs.loss_config = config;
  if (with_dropout) inputs.dropout_key = context.dropout_key;
  // Needed on a mesh too, where the routers' logits are gathered only on request.
  if (wants_router_loss(context.arguments) || router_balance_of(model.config()).output_router_logits)
    inputs.output_router_logits = true;
  const ModelOutput out = model(inputs);
  RowLogps rows{.tokens = -out.loss, .routers = {}};
  if (out.aux_loss.defined()) {
    rows.routers.loss = at::zeros_like(out.aux_loss);
    add_router_loss(rows.routers, model, context.arguments.loss(), inputs.attention_mask, out, context.share);
  }
  return rows;
}

JoinedRows::JoinedRows(const Batch& batch, const Parallel* parallel)
    : rows_(batch.input_ids.size(0)), width_(batch.input_ids.size(1)) {
  const at::Tensor lengths =
      (batch.numbers.at("prompt_tokens") + batch.numbers.at("completion_tokens")).to(at::kCPU, at::kLong).contiguous();
  const int64_t ranks = parallel ? parallel->mesh().size(parallel->batch()) : 1, each = rows_ / ranks;
  const int64_t width = lengths.view({ranks, each}).sum(1).max().item<int64_t>();
  at::Tensor places = at::zeros({ranks, width}, at::kLong), positions = at::zeros_like(places);
  at::Tensor segments = at::full({ranks, width}, -1, at::kLong);
  std::vector<int64_t> from, to;
  for (int64_t row = 0, next = 0; row < rows_; ++row) {
    if (row % each == 0) next = row / each * width;
    for (int64_t t = 0; t < lengths.const_data_ptr<int64_t>()[row]; ++t, ++next) {
      places.mutable_data_ptr<int64_t>()[next] = row * width_ + t;
      positions.mutable_data_ptr<int64_t>()[next] = t;
      segments.mutable_data_ptr<int64_t>()[next] = row % each;
      from.push_back(next);
      to.push_back(row * width_ + t);
    }
  }
  const at::Device device = batch.input_ids.device();
  const at::Tensor index = places.flatten().to(device);
  const auto join = [&](const at::Tensor& x) { return x.flatten().index_select(0, index).view({ranks, width}); };
  batch_.input_ids = join(batch.input_ids);
  batch_.labels = join(batch.labels).masked_fill(segments.lt(0).to(device), data::kNoLoss);
  batch_.segment_ids = segments;
  batch_.position_ids = positions.to(device);
  batch_.tokens = batch.tokens;
  from_ = at::tensor(from, at::kLong).to(device);
  to_ = at::tensor(to, at::kLong).to(device);
}

at::Tensor JoinedRows::as_rows(const at::Tensor& values) const {
  const at::Tensor none = at::zeros({rows_ * width_}, values.options());
  return none.index_copy(0, to_, values.flatten().index_select(0, from_)).view({rows_, width_});
}

ByAnswer by_answer(const at::Tensor& rows) {
  const at::Tensor pairs = rows.unflatten(0, {-1, 2});
  return {pairs.select(1, 0), pairs.select(1, 1)};
}

at::Tensor number_like(const Batch& batch, const std::string& name, const at::Tensor& like) {
  return batch.numbers.at(name).to(like.scalar_type());
}

PairMean::PairMean(const Batch& batch, const LossContext& context, const at::Tensor& like)
    : weights_(by_answer(number_like(batch, "counts", like)).chosen / context.items) {}

at::Tensor PairMean::operator()(const at::Tensor& values) const {
  // Padding rows may have NaN values.
  return (values.to(weights_.scalar_type()).masked_fill(weights_.eq(0), 0) * weights_).sum();
}

void add_reward_metrics(const at::Tensor& chosen, const at::Tensor& rejected, const PairMean& mean,
                        std::map<std::string, at::Tensor>& metrics) {
  metrics["rewards/chosen"] = mean(chosen.detach());
  metrics["rewards/rejected"] = mean(rejected.detach());
  metrics["rewards/accuracies"] = mean(chosen.gt(rejected));
  metrics["rewards/margins"] = mean((chosen - rejected).detach());
}

}  // namespace easydel
