// Distillation: a student learns the distribution of a teacher over the next token, and the labels.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/distillation/teacher.h"

namespace easydel {
namespace {

// Sums over tokens that have a label: [3] of the teacher's cross-entropy with the student, its own entropy, and the
// cross-entropy of the labels. All logits in float32 or better.
at::Tensor token_sums(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& targets,
                      double temperature) {
  const at::ScalarType wide = at::promote_types(student.scalar_type(), at::kFloat);
  const at::Tensor labelled = targets.ne(-100);
  const at::Tensor scores = student.to(wide);
  const at::Tensor q = at::log_softmax(teacher.to(wide) / temperature, -1);
  const at::Tensor p = at::exp(q);
  const at::Tensor cross = -(p * at::log_softmax(scores / temperature, -1)).sum(-1);
  const at::Tensor own = -(p * q).sum(-1);
  const at::Tensor nll = -at::log_softmax(scores, -1).gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1);
  return at::stack({(cross * labelled).sum(), (own * labelled).sum(), (nll * labelled).sum()});
}

std::vector<int64_t> layers_of(const DistillationArguments& distillation, std::size_t count) {
  std::vector<int64_t> layers = distillation.hidden_state_layers.value_or(std::vector<int64_t>{-1});
  const auto all = static_cast<int64_t>(count);
  for (int64_t& layer : layers) {
    require<ConfigError>(layer >= -all && layer < all, "[distillation] hidden_state_layers must lie in [", -all, ", ",
                         all, "), where 0 is the embeddings; got ", layer, ".");
    if (layer < 0) layer += all;
  }
  return layers;
}

class DistillationObjective final : public Objective {
 public:
  explicit DistillationObjective(std::shared_ptr<const BaseModule> teacher)
      : teacher_(std::move(teacher)), rows_(make_causal_lm_objective()) {
    require<ConfigError>(teacher_ != nullptr, "[distillation] a teacher is needed.");
  }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return rows_->transform(tokenizer, arguments);
  }
  bool packs(const TrainingArguments& arguments) const override { return rows_->packs(arguments); }
  bool joins_rows(const TrainingArguments& arguments) const override { return rows_->joins_rows(arguments); }
  std::vector<const BaseModule*> other_models() const override { return {teacher_.get()}; }
  std::vector<BatchRow> rows(const data::Example& example) const override { return rows_->rows(example); }
  double count_items(const std::vector<BatchRow>& rows) const override { return rows_->count_items(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const DistillationArguments& distillation = arguments.distillation;
    require_teacher(model, *teacher_, "distillation");
    const bool hidden = distillation.hidden_state_loss_weight.value_or(0) != 0;
    require<ConfigError>(!hidden || model.config().hidden_size == teacher_->config().hidden_size,
                         "[distillation] hidden_state_loss_weight needs models with the same hidden size; got ",
                         model.config().hidden_size, " and ", teacher_->config().hidden_size, ".");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const DistillationArguments& d = context.arguments.distillation;
    const bool with_hidden = d.hidden_state_loss_weight.value_or(0) != 0;
    const TeacherPass pass(model, *teacher_, batch, context, true, with_hidden);
    const auto sums_of = [temperature = d.temperature](const at::Tensor& student, const at::Tensor& teacher,
                                                       const at::Tensor& labels) {
      return token_sums(student, teacher, labels, temperature);
    };
    std::vector<at::Tensor> sums{
        pass.sum_tokens(logits_at_once(d.logits_chunk_size, context.arguments, model), sums_of)};
    if (with_hidden) sums.push_back(hidden_distance(pass.ours, pass.theirs, pass.prepared.targets, d).reshape({1}));
    at::Tensor total = at::cat(sums) / context.items;
    if (const auto& parallel = model.parallel()) total = collectives::sum(total, parallel->group(parallel->data()));

    const double squared = d.temperature * d.temperature;
    const at::Tensor kl = squared * (total[0] - total[1]);
    ObjectiveLoss out{.loss = d.alpha * kl + (1 - d.alpha) * total[2]};
    out.metrics = {{"kl_loss", kl.detach()},
                   {"distill_xent_loss", squared * total[0].detach()},
                   {"teacher_entropy_loss", squared * total[1].detach()},
                   {"ce_loss", total[2].detach()}};
    if (with_hidden) {
      out.loss = out.loss + *d.hidden_state_loss_weight * total[3];
      out.metrics["hidden_state_loss"] = total[3].detach();
    }
    add_router_loss(out, model, context.arguments.loss(),
                    pass.prepared.token_mask.defined() ? pass.prepared.token_mask : pass.prepared.attention_mask,
                    pass.ours, context.share);
    return out;
  }

 private:
  // Squared distances of the hidden states, summed over the tokens that have a label; the mean over the layers.
  static at::Tensor hidden_distance(const ModelOutput& ours, const ModelOutput& theirs, const at::Tensor& targets,
                                    const DistillationArguments& d) {
    const std::vector<int64_t> mine = layers_of(d, ours.hidden_states.size());
    const std::vector<int64_t> others = layers_of(d, theirs.hidden_states.size());
    const at::Tensor labelled = targets.ne(-100);
    at::Tensor sum;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const at::Tensor& x = ours.hidden_states[static_cast<std::size_t>(mine[i])];
      const at::Tensor& y = theirs.hidden_states[static_cast<std::size_t>(others[i])];
      const at::ScalarType wide = at::promote_types(x.scalar_type(), at::kFloat);
      const at::Tensor distance = ((x.to(wide) - y.to(wide)).square().sum(-1) * labelled).sum();
      sum = sum.defined() ? sum + distance : distance;
    }
    return sum / static_cast<double>(mine.size());
  }

  std::shared_ptr<const BaseModule> teacher_;
  std::unique_ptr<Objective> rows_;
};

}  // namespace

std::unique_ptr<Objective> make_distillation_objective(std::shared_ptr<const BaseModule> teacher) {
  return std::make_unique<DistillationObjective>(std::move(teacher));
}

}  // namespace easydel
