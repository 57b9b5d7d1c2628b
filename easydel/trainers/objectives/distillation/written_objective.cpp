// A student learns from completions that are written during the run: "seq_kd" the teacher's own words
// (https://huggingface.co/papers/1606.07947), "on_policy_distillation" and "sparse_distillation" the teacher's
// distribution over the student's, of which sparse_distillation knows the most likely tokens alone. The losses are
// EasyDeL's.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/sharding/collectives/collectives.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/distillation/gkd_objective.h"
#include "easydel/trainers/objectives/distillation/teacher.h"
#include "easydel/trainers/objectives/distillation/written_rows.h"
#include "easydel/trainers/rollouts/completion_rows.h"

namespace easydel {
namespace {

// KL(teacher || student) of logits [n, V], summed over the tokens that have a label: [1].
at::Tensor forward_divergence(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& labels,
                              double temperature) {
  const at::ScalarType wide = at::promote_types(student.scalar_type(), at::kFloat);
  const at::Tensor p = at::log_softmax(teacher.to(wide) / temperature, -1);
  const at::Tensor q = at::log_softmax(student.to(wide) / temperature, -1);
  return ((at::exp(p) * (p - q)).sum(-1) * labels.ne(-100)).sum().reshape({1});
}

// The student's cross-entropy with the teacher's distribution over its `count` most likely tokens.
at::Tensor sparse_cross_entropy(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& labels,
                                double temperature, int64_t count) {
  const at::ScalarType wide = at::promote_types(student.scalar_type(), at::kFloat);
  const auto [known, tokens] = at::log_softmax(teacher.to(wide), -1).topk(count, -1);
  const at::Tensor p = at::softmax(known / temperature, -1);
  const at::Tensor q = at::log_softmax(student.to(wide) / temperature, -1).gather(-1, tokens);
  return (-(p * q).sum(-1) * labels.ne(-100)).sum().reshape({1});
}

class WrittenObjective final : public Objective {
 public:
  WrittenObjective(std::string type, GkdParts parts) : type_(std::move(type)), parts_(std::move(parts)) {
    require<ConfigError>(parts_.teacher != nullptr, "[", type_, "] a teacher is needed.");
  }

  int64_t rows_per_example(const TrainingArguments& arguments) const override {
    return arguments.written.rollout.num_return_sequences;
  }
  int64_t steps_of_generation(const TrainingArguments&) const override { return 1; }
  std::vector<const BaseModule*> other_models() const override { return {parts_.teacher.get()}; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return data::make_prompt_transform(tokenizer, {.codec = {},
                                                   .max_length = arguments.written.rollout.max_prompt_length,
                                                   .truncation_mode = arguments.truncation_mode});
  }
  std::vector<BatchRow> rows(const data::Example&) const override { return {}; }
  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows) count += count_targets(row);
    return count;
  }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const WrittenDistillationArguments& written = arguments.written;
    require_teacher(model, *parts_.teacher, type_);
    for (const BaseModule* writer : {&model, parts_.teacher.get()}) require_room(*writer, written.rollout, type_);
    const int64_t vocabulary = parts_.teacher->config().vocab_size;
    require<ConfigError>(type_ != "sparse_distillation" || written.top_k_teacher <= vocabulary, "[", type_,
                         "] top_k_teacher must not be above the vocabulary, ", vocabulary, " tokens; got ",
                         written.top_k_teacher, ".");
  }

  GeneratedRows generate(const std::shared_ptr<BaseModule>& model,
                         const std::vector<std::vector<data::Example>>& batches,
                         const GenerationContext& context) override {
    const WrittenDistillationArguments& written = context.arguments.written;
    const bool by_teacher = type_ == "seq_kd" || (type_ == "on_policy_distillation" && written.generate_with_teacher);
    RolloutFunction& rollouts = by_teacher ? parts_.teacher_rollouts : parts_.student_rollouts;
    if (!rollouts) {
      // The engine reads the teacher's weights; its interface is that of a model that may change.
      const auto writer = by_teacher ? std::const_pointer_cast<BaseModule>(parts_.teacher) : model;
      rollouts = make_rollouts(writer, context.tokenizer, written.rollout);
    }
    GeneratedRows out;
    add_written_rows(out, rollouts, written.rollout.num_return_sequences, batches, rollout_key(context), *model,
                     context);
    return out;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    if (type_ == "seq_kd") return language_model_loss(model, batch.inputs(), context);
    const WrittenDistillationArguments& written = context.arguments.written;
    const TeacherPass pass(model, *parts_.teacher, batch, context, true);
    const auto sum = [is_sparse = type_ == "sparse_distillation", temperature = written.temperature,
                      count = written.top_k_teacher](const at::Tensor& student, const at::Tensor& teacher,
                                                     const at::Tensor& labels) {
      return is_sparse ? sparse_cross_entropy(student, teacher, labels, temperature, count)
                       : forward_divergence(student, teacher, labels, temperature);
    };
    const int64_t chunk = logits_at_once(written.logits_chunk_size, context.arguments, model);
    at::Tensor total = pass.sum_tokens(chunk, sum) * (written.temperature * written.temperature) / context.items;
    if (const auto& parallel = model.parallel()) total = collectives::sum(total, parallel->group(parallel->data()));
    ObjectiveLoss out{.loss = written.alpha * total[0], .metrics = {{"kl_loss", total[0].detach()}}};
    const at::Tensor& mask = pass.prepared.token_mask;
    add_router_loss(out, model, context.arguments.loss(), mask.defined() ? mask : pass.prepared.attention_mask,
                    pass.ours, context.share);
    return out;
  }

 private:
  std::string type_;
  GkdParts parts_;
};

}  // namespace

std::unique_ptr<Objective> make_written_objective(const std::string& trainer_type, GkdParts parts) {
  return std::make_unique<WrittenObjective>(trainer_type, std::move(parts));
}

}  // namespace easydel
