#include "easydel/trainers/objectives/objective.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/decoder_config.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/operations/moe/moe.h"

namespace easydel {

data::Transform transform_of(const Objective& objective, const AutoTokenizer& tokenizer,
                             const TrainingArguments& arguments) {
  data::Transform read = objective.transform(tokenizer, arguments);
  if (arguments.ids_to_pop_from_dataset.empty()) return read;
  return [read, columns = arguments.ids_to_pop_from_dataset](const data::Row& row) -> std::optional<data::Example> {
    data::Row kept{.values = Json::object(), .source = row.source, .index = row.index};
    for (const auto& [name, value] : row.values.as_object()) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) kept.values[name] = value;
    }
    try {
      return read(kept);
    } catch (const FormatError& error) {
      std::string names;
      for (const std::string& column : columns) names += (names.empty() ? "" : ", ") + column;
      fail<FormatError>(error.what(), " ids_to_pop_from_dataset drops ", names, ".");
    }
  };
}

data::PackOptions packing_of(const Objective& objective, const TrainingArguments& arguments) {
  if (!objective.packs(arguments)) return {};
  return {.max_length = arguments.sequence_length(),
          .strategy = data::parse_pack_strategy(arguments.text.packing_strategy),
          .documents = arguments.text.dataset_batch_size,
          .threads = arguments.dataset_num_proc.value_or(1)};
}

double count_targets(const BatchRow& row) {
  double count = 0;
  for (std::size_t i = 1; i < row.labels.size(); ++i) {
    const bool begins = !row.segment_ids.empty() && row.segment_ids[i] != row.segment_ids[i - 1];
    if (row.labels[i] != -100 && !begins) ++count;
  }
  return count;
}

bool wants_router_loss(const TrainingArguments& arguments) {
  return arguments.aux_loss_enabled || arguments.loss().auxiliary_loss_coefficient.value_or(0.0) != 0.0;
}

void add_router_loss(ObjectiveLoss& loss, const BaseModule& model, const LossConfig& config,
                     const at::Tensor& token_mask, const ModelOutput& out, double share) {
  if (out.router_logits.empty()) return;
  const RouterBalance balance = router_balance_of(model.config());
  if (out.aux_loss.defined()) {
    const double coefficient = config.auxiliary_loss_coefficient.value_or(balance.coefficient);
    loss.loss = loss.loss + coefficient * share * out.aux_loss;
    loss.metrics["aux_loss"] = out.aux_loss.detach() * share;
  }
  const at::NoGradGuard no_grad;
  operations::RouterStatistics total;
  for (const at::Tensor& logits : out.router_logits) {
    const bool has_mask = token_mask.defined() && token_mask.numel() == logits.size(0);
    total += operations::router_statistics(logits.detach(), balance.top_k,
                                           has_mask ? token_mask.to(logits.device()) : at::Tensor());
  }
  if (const auto& parallel = model.parallel()) {
    const int64_t experts = total.assignments.numel();
    const at::Tensor sums = at::cat({total.assignments, total.tokens.view({1}), total.entropy.view({1})});
    parallel->group(parallel->data()).all_reduce(sums);
    total.assignments = sums.narrow(0, 0, experts);
    total.tokens = sums.select(0, experts);
    total.entropy = sums.select(0, experts + 1);
  }
  loss.metrics["router/load_max"] = operations::router_load_max(total) * share;
  loss.metrics["router/entropy"] = total.entropy / total.tokens.clamp_min(1) * share;
}

data::Floats to_floats(const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kFloat).contiguous();
  const float* begin = flat.const_data_ptr<float>();
  return {.shape = flat.sizes().vec(), .values = {begin, begin + flat.numel()}};
}

at::Tensor to_tensor(const data::Floats& floats) {
  at::Tensor values = at::empty(floats.shape, at::kFloat);
  std::copy(floats.values.begin(), floats.values.end(), values.mutable_data_ptr<float>());
  return values;
}

void require_same_mesh(const BaseModule& model, const BaseModule& other, const std::string& what) {
  const auto name = [](const BaseModule& m) { return m.parallel() ? m.mesh().to_string() : std::string("no mesh"); };
  require<ConfigError>(name(model) == name(other), what, " must be on the model's mesh, ", name(model), "; got ",
                       name(other), ".");
}

}  // namespace easydel
