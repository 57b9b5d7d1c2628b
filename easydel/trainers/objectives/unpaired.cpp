#include "easydel/trainers/objectives/unpaired.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"

namespace easydel {

data::Transform unpaired_answers(const std::string& trainer_type, const AutoTokenizer& tokenizer,
                                 const PairLimits& limits) {
  limits.validate(trainer_type);
  const data::Transform tokenize = data::make_unpaired_transform(
      tokenizer, {.codec = {}, .max_length = limits.whole(), .truncation_mode = limits.truncation_mode});
  return [tokenize, limits](const data::Row& row) -> std::optional<data::Example> {
    const std::optional<data::Example> ids = tokenize(row);
    if (!ids) return std::nullopt;
    data::Example example;
    LabelledIds joined = join_answer(ids->others.at("prompt_ids"), ids->others.at("completion_ids"), limits);
    example.input_ids = std::move(joined.ids);
    example.labels = std::move(joined.labels);
    example.numbers["label"] = ids->numbers.at("label");
    return example;
  };
}

BatchRow unpaired_row(const data::Example& example) {
  BatchRow row = answer_row(example.input_ids, example.labels);
  const double label = example.numbers.at("label");
  row.numbers["wanted"] = label;
  row.numbers["unwanted"] = 1 - label;
  return row;
}

double count_rows(const std::vector<BatchRow>& rows) {
  double count = 0;
  for (const BatchRow& row : rows) count += row.numbers.at("counts");
  return count;
}

void add_unpaired_metrics(const at::Tensor& rewards, const at::Tensor& logps, const Batch& batch,
                          const LossContext& context, std::map<std::string, at::Tensor>& metrics) {
  const at::Tensor missing = number_like(batch, "counts", logps).eq(0);
  for (const auto& [side, name] : {std::pair{"chosen", "wanted"}, {"rejected", "unwanted"}}) {
    const double all = context.totals.at(name);
    if (all == 0) continue;
    const at::Tensor mask = number_like(batch, name, logps);
    metrics[concat("rewards/", side)] = (rewards.detach().masked_fill(missing, 0) * mask).sum() / all;
    metrics[concat("logps/", side)] = (logps.detach().masked_fill(missing, 0) * mask).sum() / all;
  }
  if (metrics.contains("rewards/chosen") && metrics.contains("rewards/rejected"))
    metrics["rewards/margins"] = metrics.at("rewards/chosen") - metrics.at("rewards/rejected");
}

}  // namespace easydel
