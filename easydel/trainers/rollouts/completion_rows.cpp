#include "easydel/trainers/rollouts/completion_rows.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/policy_logps.h"
#include "easydel/trainers/objectives/reference/reference.h"

namespace easydel {

double counted_tokens(const Completion& completion, const RolloutArguments& rollout) {
  const bool counts = !(rollout.mask_truncated_completions && completion.is_truncated);
  return counts ? completion.own_tokens() : 0;
}

BatchRow completion_row(const std::vector<int64_t>& prompt, const Completion& completion,
                        const RolloutArguments& rollout) {
  const double counted = counted_tokens(completion, rollout);
  BatchRow row{.input_ids = prompt, .labels = std::vector<int64_t>(prompt.size(), data::kNoLoss)};
  row.input_ids.insert(row.input_ids.end(), completion.ids.begin(), completion.ids.end());
  std::vector<double> mask(completion.ids.size(), counted > 0 ? 1.0 : 0.0);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!completion.own.empty()) mask[i] *= completion.own[i];
    row.labels.push_back(mask[i] > 0 ? completion.ids[i] : data::kNoLoss);
  }
  row.numbers = {{"counts", 1}, {"tokens", counted}, {"prompt_tokens", static_cast<double>(prompt.size())}};
  const auto put = [&](const std::string& name, const std::vector<double>& values) {
    std::vector<double>& series = row.series[name];
    series.assign(prompt.size() - 1, 0);
    series.insert(series.end(), values.begin(), values.end());
  };
  put("mask", mask);
  if (completion.logps.size() == completion.ids.size()) put("sampling_logps", completion.logps);
  return row;
}

void add_token_series(const std::string& name, GeneratedRows& generated, const Parallel* parallel,
                      const GenerationContext& context, const std::function<at::Tensor(const Batch&)>& score) {
  const at::NoGradGuard no_grad;
  const OwnRows own = own_rows(context.batch.rows, parallel);
  for (std::vector<BatchRow>& rows : generated.steps) {
    for (std::size_t begin = 0; begin < rows.size(); begin += static_cast<std::size_t>(own.count)) {
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(begin);
      const Batch batch = make_batch({first, first + own.count}, context.batch, parallel);
      const at::Tensor table = score(batch).narrow(0, own.first, own.count).to(at::kCPU, at::kDouble).contiguous();
      for (int64_t i = 0; i < own.count; ++i) {
        const double* values = table.const_data_ptr<double>() + i * table.size(1);
        BatchRow& row = *(first + i);
        row.series[name] = std::vector<double>(values, values + row.input_ids.size());
      }
    }
  }
}

void add_logps_series(const std::string& name, GeneratedRows& generated, const BaseModule& scorer,
                      const BaseModule& model, const GenerationContext& context, double temperature) {
  add_token_series(name, generated, model.parallel().get(), context, [&](const Batch& batch) {
    return policy_logps(scorer, batch, {.arguments = context.arguments}, temperature, false).tokens;
  });
}

void add_reference_logps(GeneratedRows& generated, const BaseModule* reference, BaseModule& model,
                         const GenerationContext& context, double temperature) {
  if (reference) return add_logps_series("reference_logps", generated, *reference, model, context, temperature);
  const WithoutAdapters off(model);
  add_logps_series("reference_logps", generated, model, model, context, temperature);
}

void require_room(const BaseModule& model, const RolloutArguments& rollout, const std::string& trainer_type) {
  const int64_t context = model.config().max_position_embeddings;
  require<ConfigError>(context == 0 || rollout.max_completion_length < context, "[", trainer_type,
                       "] max_completion_length must be below the model's context of ", context, " tokens; got ",
                       rollout.max_completion_length, ".");
}

RandomKey rollout_key(const GenerationContext& context) {
  return RandomKey(static_cast<uint64_t>(context.arguments.seed))
      .fold(context.is_evaluation ? "evaluation" : "rollout")
      .fold(static_cast<uint64_t>(context.step));
}

}  // namespace easydel
