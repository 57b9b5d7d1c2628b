// Kahneman-Tversky optimization: answers that are wanted become likelier than the policy's distance from the reference
// makes them anyway, and unwanted ones less likely. Row 2i is an example, and row 2i + 1 its prompt with the answer of
// the example before, from which that distance is estimated.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/trainers/objectives/reference/reference.h"
#include "easydel/trainers/objectives/unpaired.h"

namespace easydel {
namespace {

using Ids = std::vector<int64_t>;

Ids part(const Ids& ids, int64_t begin, int64_t end) { return {ids.begin() + begin, ids.begin() + end}; }

class KtoObjective final : public Objective {
 public:
  explicit KtoObjective(std::shared_ptr<const BaseModule> reference) : reference_(std::move(reference)) {}

  int64_t rows_per_example(const TrainingArguments& arguments) const override {
    return arguments.kto.estimates_kl() ? 2 : 1;
  }
  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return arguments.kto.padding_value;
  }
  std::vector<const BaseModule*> other_models() const override {
    return reference_ ? std::vector<const BaseModule*>{reference_.get()} : std::vector<const BaseModule*>();
  }
  bool runs_base() const override { return !reference_; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    const data::Transform read = unpaired_answers("kto", tokenizer, limits_of(arguments));
    return [read, rows = rows_per_example(arguments)](const data::Row& row) -> std::optional<data::Example> {
      std::optional<data::Example> example = read(row);
      if (example) example->numbers["rows"] = static_cast<double>(rows);
      return example;
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    BatchRow row = unpaired_row(example);
    if (example.numbers.at("rows") == 1) return {row};
    BatchRow other = row;  // its answer comes with the other rows of the minibatch
    for (const char* name : {"counts", "wanted", "unwanted"}) other.numbers[name] = 0;
    return {std::move(row), std::move(other)};
  }

  void link_rows(std::vector<BatchRow>& rows, const TrainingArguments& arguments) const override {
    if (!arguments.kto.estimates_kl()) return;
    const PairLimits whole{.max_length = arguments.max_length, .truncation_mode = "keep_start"};
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      const BatchRow& before = rows[i == 0 ? rows.size() - 2 : i - 2];
      LabelledIds joined = join_answer(split(rows[i]).first, split(before).second, whole);
      BatchRow& other = rows[i + 1];
      BatchRow made = answer_row(joined.ids, joined.labels);
      other.input_ids = std::move(made.input_ids);
      other.labels = std::move(made.labels);
      for (const char* name : {"prompt_tokens", "completion_tokens"}) other.numbers[name] = made.numbers.at(name);
    }
  }

  double count_items(const std::vector<BatchRow>& rows) const override { return count_rows(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    require_token(model, arguments.kto.padding_value, "[kto] padding_value");
    require_reference(reference_.get(), model, "kto");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const KtoArguments& kto = context.arguments.kto;
    const int64_t each = rows_per_example(context.arguments);
    const Batch own = every_row(batch, 0, each);
    const RowLogps policy = row_logps(model, own, context, !kto.disable_dropout);
    const at::Tensor logps = policy.sums();
    const at::Tensor counts = number_like(own, "counts", logps);
    const auto of_reference = [&](const Batch& rows) {
      return with_reference(reference_.get(), model, [&](const BaseModule& reference) {
        return row_logps(reference, rows, context, false).sums();
      });
    };
    const at::Tensor ratios = (logps - of_reference(own)).masked_fill(counts.eq(0), 0);
    at::Tensor kl = at::zeros({}, logps.options());
    if (kto.estimates_kl()) {
      const at::NoGradGuard no_grad;
      const Batch others = every_row(batch, 1, each);
      const at::Tensor distance = row_logps(model, others, context, false).sums() - of_reference(others);
      kl = ((distance * counts).sum() / counts.sum().clamp_min(1)).clamp_min(0);
    }
    const at::Tensor wanted = number_like(own, "wanted", logps), unwanted = number_like(own, "unwanted", logps);
    const at::Tensor gain = 1 - at::sigmoid(kto.beta * (ratios - kl)), harm = 1 - at::sigmoid(kto.beta * (kl - ratios));
    const at::Tensor losses = kto.desirable_weight * gain * wanted + kto.undesirable_weight * harm * unwanted;
    ObjectiveLoss out{.loss = losses.sum() / context.items};
    policy.add_routers(out);
    out.metrics["kl"] = kl * context.share;
    add_unpaired_metrics(kto.beta * ratios, logps, own, context, out.metrics);
    return out;
  }

 private:
  static PairLimits limits_of(const TrainingArguments& arguments) {
    return {.max_length = arguments.max_length,
            .max_prompt_length = arguments.kto.max_prompt_length,
            .max_completion_length = arguments.kto.max_completion_length,
            .truncation_mode = arguments.truncation_mode};
  }

  static std::pair<Ids, Ids> split(const BatchRow& row) {
    const auto prompt = static_cast<int64_t>(row.numbers.at("prompt_tokens"));
    return {part(row.input_ids, 0, prompt), part(row.input_ids, prompt, static_cast<int64_t>(row.input_ids.size()))};
  }

  std::shared_ptr<const BaseModule> reference_;
};

}  // namespace

std::unique_ptr<Objective> make_kto_objective(std::shared_ptr<const BaseModule> reference) {
  return std::make_unique<KtoObjective>(std::move(reference));
}

}  // namespace easydel
