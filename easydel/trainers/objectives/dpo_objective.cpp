// Direct preference optimization: the margin between chosen and rejected answers grows, measured from a reference.
#include <ATen/ATen.h>

#include <array>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/data/rows/preference.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/dpo_loss.h"
#include "easydel/trainers/objectives/pairs.h"
#include "easydel/trainers/objectives/policy_logps.h"
#include "easydel/trainers/objectives/reference/reference.h"

namespace easydel {
namespace {

// Two numbers that stand for the tokens of a row and for where its answer begins.
using RowKey = std::array<uint64_t, 2>;

RowKey key_of(const BatchRow& row) {
  RowKey key{0xcbf29ce484222325, 0x9e3779b97f4a7c15};
  const auto add = [&](uint64_t value) {
    key[0] = (key[0] ^ value) * 0x100000001b3;
    key[1] = (key[1] + value) * 0xff51afd7ed558ccd;
    key[0] ^= key[0] >> 29;
    key[1] ^= key[1] >> 32;
  };
  for (const int64_t id : row.input_ids) add(static_cast<uint64_t>(id));
  add(static_cast<uint64_t>(row.numbers.at("prompt_tokens")));
  return key;
}

std::optional<double> number_in(const data::Row& row, const std::string& name) {
  const Json* value = row.values.find(name);
  if (!value || value->is_null()) return std::nullopt;
  require<FormatError>(value->is_number(), "[", row.place(), "] \"", name, "\" must be a number; got ",
                       value->type_name(), ".");
  return value->as_double();
}

class DpoObjective final : public Objective {
 public:
  explicit DpoObjective(std::shared_ptr<const BaseModule> reference) : reference_(std::move(reference)) {}

  int64_t rows_per_example(const TrainingArguments&) const override { return 2; }
  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return arguments.dpo.padding_value;
  }

  std::vector<const BaseModule*> other_models() const override {
    return reference_ ? std::vector<const BaseModule*>{reference_.get()} : std::vector<const BaseModule*>();
  }
  bool runs_base() const override { return runs_base_; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    const DpoArguments& dpo = arguments.dpo;
    const PairLimits limits{.max_length = arguments.max_length,
                            .max_prompt_length = dpo.max_prompt_length,
                            .max_completion_length = dpo.max_completion_length,
                            .truncation_mode = arguments.truncation_mode};
    limits.validate("dpo");
    const data::Transform tokenize = data::make_dpo_transform(
        tokenizer, {.codec = {}, .max_length = limits.whole(), .truncation_mode = arguments.truncation_mode});
    const bool given = is_given(arguments);
    return [tokenize, limits, given](const data::Row& row) -> std::optional<data::Example> {
      const std::optional<data::Example> ids = tokenize(row);
      if (!ids) return std::nullopt;
      data::Example example;
      for (const std::string side : {"chosen", "rejected"}) {
        LabelledIds joined = join_answer(ids->others.at("prompt_ids"), ids->others.at(side + "_ids"), limits);
        example.others[side + "_ids"] = std::move(joined.ids);
        example.others[side + "_labels"] = std::move(joined.labels);
        if (!given) continue;
        const std::optional<double> logps = number_in(row, "ref_" + side + "_logps");
        require<FormatError>(logps.has_value(), "[", row.place(), "] dpo without a reference model needs \"ref_", side,
                             "_logps\" in every row; set precompute_ref_log_probs, or reference_free.");
        example.numbers[side] = *logps;
      }
      return example;
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    std::vector<BatchRow> rows = pair_rows(example);
    if (!example.numbers.empty()) {
      rows[0].numbers["ref_logps"] = example.numbers.at("chosen");
      rows[1].numbers["ref_logps"] = example.numbers.at("rejected");
    } else if (!known_.empty()) {
      for (BatchRow& row : rows) {
        const auto found = known_.find(key_of(row));
        require<Error>(found != known_.end(), "[dpo] a row has no precomputed log-probability of the reference.");
        row.numbers["ref_logps"] = found->second;
      }
    }
    return rows;
  }

  double count_items(const std::vector<BatchRow>& rows) const override { return count_pairs(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData& data) override {
    require_token(model, arguments.dpo.padding_value, "[dpo] padding_value");
    require<ConfigError>(!arguments.dpo.ld_alpha || !is_given(arguments),
                         "[dpo] ld_alpha needs a reference model; the rows carry only sums of log-probabilities.");
    if (!arguments.dpo.uses_reference()) reference_ = nullptr;
    runs_base_ = false;
    if (arguments.dpo.uses_reference() && !is_given(arguments) && !arguments.dpo.precompute_ref_log_probs) {
      require_reference(reference_.get(), model, "dpo");
      runs_base_ = !reference_;
    }
    if (reference_) require_same_mesh(model, *reference_, "[dpo] the reference");
    sync_ = arguments.dpo.sync;
    if (sync_.sync_ref_model) make_movable(reference_, model, "dpo");
    if (!arguments.dpo.precompute_ref_log_probs || !arguments.dpo.uses_reference()) return;
    for (const auto& dataset : data.datasets) walk(reference_ ? *reference_ : model, *dataset, arguments, data);
    reference_ = nullptr;
  }

  void after_step(const BaseModule& model, int64_t step) override {
    if (sync_.is_due(step)) move_reference(reference_, model, sync_.ref_model_mixup_alpha);
  }
  std::shared_ptr<const BaseModule> moving_reference() const override {
    return sync_.sync_ref_model ? reference_ : nullptr;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const DpoArguments& dpo = context.arguments.dpo;
    at::Tensor weights;  // of each pair; undefined: 1
    std::optional<JoinedRows> joined;
    if (dpo.padding_free) joined.emplace(batch, model.parallel().get());
    const RowLogps policy = dpo.use_weighting ? weighted_logps(model, batch, joined, context, weights)
                                              : logps_of(model, batch, joined, context, !dpo.disable_dropout);
    const at::Tensor sums = answer_sums(policy.tokens, batch, dpo);
    const at::Tensor reference = reference_logps(model, batch, joined, context, sums);
    const ByAnswer logps = by_answer(sums), ratios = by_answer(sums - reference);
    const ByAnswer of_reference = by_answer(reference);
    const at::Tensor margins = of_reference.chosen - of_reference.rejected;
    const ByAnswer lengths = by_answer(number_like(batch, "completion_tokens", sums));
    const PairMean mean(batch, context, sums);
    at::Tensor losses = pair_loss({.chosen_logratios = ratios.chosen,
                                   .rejected_logratios = ratios.rejected,
                                   .chosen_lengths = lengths.chosen,
                                   .rejected_lengths = lengths.rejected,
                                   .reference_margins = margins,
                                   .counts = by_answer(number_like(batch, "counts", sums)).chosen},
                                  dpo);
    if (weights.defined()) losses = losses * weights;
    ObjectiveLoss out{.loss = mean(losses)};
    if (const double weight = likelihood_weight(dpo); weight != 0 || dpo.rpo_alpha) {
      const at::Tensor nll = -by_answer(policy.sums()).chosen.sum() / std::max(context.totals.at("nll_tokens"), 1.0);
      out.metrics["nll_loss"] = nll.detach();
      out.loss = out.loss + weight * nll;
    }
    policy.add_routers(out);
    add_reward_metrics(dpo.beta * ratios.chosen.detach(), dpo.beta * ratios.rejected.detach(), mean, out.metrics);
    out.metrics["logps/chosen"] = mean(logps.chosen.detach());
    out.metrics["logps/rejected"] = mean(logps.rejected.detach());
    return out;
  }

 private:
  // Whether the rows of the data must carry the reference's log-probabilities. With adapters the base gives them.
  bool is_given(const TrainingArguments& arguments) const {
    const DpoArguments& dpo = arguments.dpo;
    return !reference_ && !arguments.lora_rank && dpo.uses_reference() && !dpo.precompute_ref_log_probs;
  }

  // Of the batch's rows, also where the model reads them joined.
  static RowLogps logps_of(const BaseModule& model, const Batch& batch, const std::optional<JoinedRows>& joined,
                           const LossContext& context, bool with_dropout) {
    if (!joined) return row_logps(model, batch, context, with_dropout);
    RowLogps logps = row_logps(model, joined->batch(), context, with_dropout);
    logps.tokens = joined->as_rows(logps.tokens);
    return logps;
  }

  at::Tensor reference_logps(const BaseModule& model, const Batch& batch, const std::optional<JoinedRows>& joined,
                             const LossContext& context, const at::Tensor& like) const {
    if (!context.arguments.dpo.uses_reference()) return at::zeros_like(like);
    if (batch.numbers.contains("ref_logps")) return number_like(batch, "ref_logps", like);
    return with_reference(reference_.get(), model, [&](const BaseModule& reference) {
      return answer_sums(logps_of(reference, batch, joined, context, false).tokens, batch, context.arguments.dpo);
    });
  }

  // Weighted preference optimization: a pair counts as much as the policy would write its answers itself, each token's
  // probability measured by the sum of the squares of all (https://huggingface.co/papers/2406.11827).
  static RowLogps weighted_logps(const BaseModule& model, const Batch& batch, const std::optional<JoinedRows>& joined,
                                 const LossContext& context, at::Tensor& weights) {
    const bool with_dropout = !context.arguments.dpo.disable_dropout;
    PolicyLogps policy = policy_logps(model, joined ? joined->batch() : batch, context, 1.0, with_dropout, false,
                                      /*with_squares=*/true);
    if (joined) {
      policy.tokens = joined->as_rows(policy.tokens);
      policy.log_squares = joined->as_rows(policy.log_squares);
    }
    const at::Tensor aligned = policy.tokens.detach() - policy.log_squares;  // 0 where there is no label
    const ByAnswer answers = by_answer(at::exp(aligned.sum(1) / predicted_tokens(batch, aligned).clamp_min(1)));
    weights = answers.chosen * answers.rejected;
    return {.tokens = std::move(policy.tokens), .routers = std::move(policy.routers)};
  }

  // Of each answer; nothing predicts the first token of a row.
  static at::Tensor predicted_tokens(const Batch& batch, const at::Tensor& like) {
    return number_like(batch, "completion_tokens", like) -
           number_like(batch, "prompt_tokens", like).eq(0).to(like.scalar_type());
  }

  // With ld_alpha, what an answer has beyond the length of the other one of its pair counts less.
  static at::Tensor answer_sums(const at::Tensor& tokens, const Batch& batch, const DpoArguments& dpo) {
    if (!dpo.ld_alpha) return tokens.sum(1);
    const at::Tensor prompts = number_like(batch, "prompt_tokens", tokens);
    const ByAnswer lengths = by_answer(predicted_tokens(batch, tokens));
    const at::Tensor shared = at::minimum(lengths.chosen, lengths.rejected).repeat_interleave(2);
    // Place t predicts the token t + 1, which is the answer's (t + 2 - prompt)-th.
    const at::Tensor place = at::arange(tokens.size(1), tokens.options()) + 2 - prompts.clamp_min(1).unsqueeze(1);
    return (tokens * at::where(place.le(shared.unsqueeze(1)), 1.0, *dpo.ld_alpha)).sum(1);
  }

  // Every row of the data once; all ranks together.
  void walk(const BaseModule& reference, const data::Dataset& dataset, const TrainingArguments& arguments,
            const ObjectiveData& data) {
    const at::NoGradGuard no_grad;
    const Parallel* parallel = reference.parallel().get();
    const OwnRows own = own_rows(data.batch.rows, parallel);
    const data::Transform read = transform_of(*this, data.tokenizer, arguments);
    const LossContext context{.arguments = arguments};
    const bool is_first = !parallel || parallel->mesh().rank() == 0;
    Progress progress("reference", {.total = dataset.size(), .unit = "rows", .enabled = arguments.verbose && is_first});
    std::vector<BatchRow> waiting;
    const auto run = [&] {
      std::vector<BatchRow> batch_rows = waiting;
      while (static_cast<int64_t>(batch_rows.size()) < data.batch.rows) batch_rows.push_back(waiting.front());
      const auto first = batch_rows.begin() + own.first;
      const Batch batch = make_batch({first, first + own.count}, data.batch, parallel);
      const at::Tensor sums = row_logps(reference, batch, context, false).sums().to(at::kCPU, at::kDouble).contiguous();
      for (std::size_t i = 0; i < waiting.size(); ++i) known_[key_of(waiting[i])] = sums.const_data_ptr<double>()[i];
      waiting.clear();
    };
    for (int64_t i = 0; i < dataset.size(); ++i) {
      progress.advance();
      const std::optional<data::Example> example = read(dataset.row(i));
      if (!example) continue;
      for (BatchRow& row : pair_rows(*example)) waiting.push_back(std::move(row));
      if (static_cast<int64_t>(waiting.size()) == data.batch.rows) run();
    }
    if (!waiting.empty()) run();
  }

  std::shared_ptr<const BaseModule> reference_;
  ReferenceSync sync_;
  bool runs_base_ = false;
  std::map<RowKey, double> known_;  // log-probabilities of the reference, once they are computed ahead
};

}  // namespace

std::unique_ptr<Objective> make_dpo_objective(std::shared_ptr<const BaseModule> reference) {
  return std::make_unique<DpoObjective>(std::move(reference));
}

}  // namespace easydel
