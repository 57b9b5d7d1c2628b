// Binary classifier optimization: the log-ratio of policy and reference, less the mean of all rewards so far, tells
// answers that are wanted from those that are not.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/data/rows/example.h"
#include "easydel/trainers/objectives/density_ratio.h"
#include "easydel/trainers/objectives/reference/reference.h"
#include "easydel/trainers/objectives/unpaired.h"

namespace easydel {
namespace {

class BcoObjective final : public Objective {
 public:
  explicit BcoObjective(std::shared_ptr<const BaseModule> reference) : reference_(std::move(reference)) {}

  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return arguments.bco.padding_value;
  }
  std::vector<const BaseModule*> other_models() const override {
    return reference_ ? std::vector<const BaseModule*>{reference_.get()} : std::vector<const BaseModule*>();
  }
  bool runs_base() const override { return !reference_; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return unpaired_answers("bco", tokenizer,
                            {.max_length = arguments.max_length,
                             .max_prompt_length = arguments.bco.max_prompt_length,
                             .max_completion_length = arguments.bco.max_completion_length,
                             .truncation_mode = arguments.truncation_mode});
  }
  std::vector<BatchRow> rows(const data::Example& example) const override { return {unpaired_row(example)}; }
  double count_items(const std::vector<BatchRow>& rows) const override { return count_rows(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData& data) override {
    require_token(model, arguments.bco.padding_value, "[bco] padding_value");
    require_reference(reference_.get(), model, "bco");
    if (arguments.bco.underlying_distribution_matching) {
      with_reference(reference_.get(), model,
                     [&](const BaseModule& reference) { fit_ratio(reference, arguments, data); });
    }
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const BcoArguments& bco = context.arguments.bco;
    const RowLogps policy = row_logps(model, batch, context, !bco.disable_dropout);
    const at::Tensor logps = policy.sums();
    const bool is_weighted = bco.underlying_distribution_matching;
    at::Tensor vectors;
    const at::Tensor reference = with_reference(reference_.get(), model, [&](const BaseModule& reference) {
      if (is_weighted) vectors = prompt_vectors(reference, batch);
      return row_logps(reference, batch, context, false).sums();
    });
    const at::Tensor counts = number_like(batch, "counts", logps);
    const at::Tensor rewards = bco.beta * (logps - reference).masked_fill(counts.eq(0), 0);
    if (context.is_training) update(rewards.detach(), counts);
    const at::Tensor apart = rewards - mean_;
    const at::Tensor ratios =
        is_weighted
            ? ratio_(vectors, bco.min_density_ratio, bco.max_density_ratio).to(logps.device(), logps.scalar_type())
            : at::ones_like(logps);
    const at::Tensor losses = at::log_sigmoid(apart) * number_like(batch, "wanted", logps) +
                              at::log_sigmoid(-apart) * number_like(batch, "unwanted", logps) * ratios;
    ObjectiveLoss out{.loss = -losses.sum() / context.items};
    if (is_weighted && context.totals.at("unwanted") > 0)
      out.metrics["density_ratio"] =
          (ratios * number_like(batch, "unwanted", logps)).sum() / context.totals.at("unwanted");
    policy.add_routers(out);
    out.metrics["delta"] = at::scalar_tensor(mean_ * context.share, logps.options());
    add_unpaired_metrics(rewards, logps, batch, context, out.metrics);
    return out;
  }

  Json state() const override { return Json::object({{"mean", mean_}, {"count", count_}}); }
  void restore(const Json& saved) override {
    mean_ = saved.at("mean").as_double();
    count_ = saved.at("count").as_double();
  }

 private:
  // Rewards that are no numbers, of a step that is skipped, change nothing.
  void update(const at::Tensor& rewards, const at::Tensor& counts) const {
    const double sum = (rewards * counts).sum().item<double>(), rows = counts.sum().item<double>();
    if (rows == 0 || !std::isfinite(sum)) return;
    count_ += rows;
    mean_ += (sum / rows - mean_) * rows / count_;
  }

  // The classifier of prompts, from as many of both kinds as prompt_sample_size says, drawn from the training data.
  void fit_ratio(const BaseModule& reference, const TrainingArguments& arguments, const ObjectiveData& data) {
    const data::Dataset& dataset = *data.datasets.front();
    const RandomKey key = RandomKey(static_cast<uint64_t>(arguments.seed)).fold("density ratio");
    std::vector<std::pair<uint64_t, int64_t>> order;
    for (int64_t i = 0; i < dataset.size(); ++i) order.emplace_back(key.fold(static_cast<uint64_t>(i)).bits(), i);
    std::sort(order.begin(), order.end());
    const data::Transform read = transform_of(*this, data.tokenizer, arguments);
    const int64_t most = arguments.bco.prompt_sample_size;
    std::array<int64_t, 2> found{0, 0};
    std::vector<BatchRow> prompts;
    std::vector<double> labels;
    for (const auto& [bits, index] : order) {
      if (found[0] >= most && found[1] >= most) break;
      const std::optional<data::Example> example = read(dataset.row(index));
      if (!example) continue;
      const double label = example->numbers.at("label");
      if (found[label > 0 ? 1 : 0]++ >= most) continue;
      BatchRow row = unpaired_row(*example);
      row.input_ids.resize(static_cast<std::size_t>(std::max(row.numbers.at("prompt_tokens"), 1.0)));
      row.labels.assign(row.input_ids.size(), data::kNoLoss);
      prompts.push_back(std::move(row));
      labels.push_back(label);
    }
    const Parallel* parallel = reference.parallel().get();
    const OwnRows own = own_rows(data.batch.rows, parallel);
    std::vector<at::Tensor> vectors;
    for (std::size_t begin = 0; begin < prompts.size(); begin += static_cast<std::size_t>(data.batch.rows)) {
      std::vector<BatchRow> rows;
      for (std::size_t i = begin; rows.size() < static_cast<std::size_t>(data.batch.rows); ++i)
        rows.push_back(prompts[std::min(i, prompts.size() - 1)]);
      const auto first = rows.begin() + own.first;
      const Batch batch = make_batch({first, first + own.count}, data.batch, parallel);
      const auto left = static_cast<int64_t>(prompts.size() - begin);
      vectors.push_back(prompt_vectors(reference, batch).narrow(0, 0, std::min(left, data.batch.rows)));
    }
    require<ConfigError>(!vectors.empty(), "[bco] the training data has no rows.");
    ratio_.fit(at::cat(vectors), at::tensor(labels, at::kDouble));
  }

  std::shared_ptr<const BaseModule> reference_;
  DensityRatio ratio_;
  mutable double mean_ = 0, count_ = 0;  // of the rewards of all steps so far
};

}  // namespace

std::unique_ptr<Objective> make_bco_objective(std::shared_ptr<const BaseModule> reference) {
  return std::make_unique<BcoObjective>(std::move(reference));
}

}  // namespace easydel
