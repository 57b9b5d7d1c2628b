// A student learns the distribution of a teacher on what it writes itself, on what the teacher writes, or on the data:
// https://huggingface.co/papers/2306.13649.
#include "easydel/trainers/objectives/distillation/gkd_objective.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/data/rows/sft.h"
#include "easydel/sharding/collectives/collectives.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/distillation/teacher.h"
#include "easydel/trainers/objectives/distillation/written_rows.h"

namespace easydel {
namespace {

// The generalized Jensen-Shannon divergence of logits [n, V], summed over the tokens that have a label: [1]. beta 0 is
// KL(teacher || student), 1 its reverse.
at::Tensor divergence_sum(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& labels, double beta,
                          double temperature) {
  const at::ScalarType wide = at::promote_types(student.scalar_type(), at::kFloat);
  const at::Tensor p = at::log_softmax(teacher.to(wide) / temperature, -1);
  const at::Tensor q = at::log_softmax(student.to(wide) / temperature, -1);
  const auto kl = [](const at::Tensor& of, const at::Tensor& from) { return (at::exp(of) * (of - from)).sum(-1); };
  at::Tensor each;
  if (beta == 0 || beta == 1) {
    each = beta == 0 ? kl(p, q) : kl(q, p);
  } else {
    const at::Tensor mixture = at::logaddexp(q + std::log1p(-beta), p + std::log(beta));
    each = beta * kl(p, mixture) + (1 - beta) * kl(q, mixture);
  }
  return (each * labels.ne(-100)).sum().reshape({1});
}

// A conversation as a prompt and its last message.
data::Row with_completion(const data::Row& given) {
  data::Row row = data::to_chatml(given);
  const Json* messages = row.values.find("messages");
  if (row.values.contains("prompt") || !messages || !messages->is_array() || messages->size() < 2) return row;
  Json prompt = Json::array();
  for (std::size_t i = 0; i + 1 < messages->size(); ++i) prompt.push_back(messages->at(i));
  const Json completion = Json::array({messages->at(messages->size() - 1)});
  row.values["prompt"] = std::move(prompt);
  row.values["completion"] = completion;
  return row;
}

class GkdObjective final : public Objective {
 public:
  explicit GkdObjective(GkdParts parts) : parts_(std::move(parts)) {
    require<ConfigError>(parts_.teacher != nullptr, "[gkd] a teacher is needed.");
  }

  int64_t steps_of_generation(const TrainingArguments&) const override { return 1; }
  std::vector<const BaseModule*> other_models() const override { return {parts_.teacher.get()}; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    data::SftOptions options;
    options.max_length = arguments.sequence_length();
    options.truncation_mode = arguments.truncation_mode;
    const data::Transform read = data::make_sft_transform(tokenizer, options);
    const auto room = static_cast<std::size_t>(arguments.sequence_length() - arguments.gkd.max_new_tokens);
    const bool keep_end = arguments.truncation_mode == "keep_end";
    return [read, room, keep_end](const data::Row& given) -> std::optional<data::Example> {
      const data::Row row = with_completion(given);
      require<FormatError>(row.values.contains("prompt"), "[", row.place(),
                           "] gkd needs \"prompt\" and \"completion\", or \"messages\" that end with an answer.");
      std::optional<data::Example> example = read(row);
      if (!example) return std::nullopt;
      const auto answer = std::find_if(example->labels.begin(), example->labels.end(),
                                       [](int64_t label) { return label != data::kNoLoss; });
      std::vector<int64_t> prompt(example->input_ids.begin(),
                                  example->input_ids.begin() + (answer - example->labels.begin()));
      if (prompt.empty()) return std::nullopt;  // truncation left an answer alone
      if (prompt.size() > room && keep_end)
        prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(room));
      prompt.resize(std::min(prompt.size(), room));
      example->others["prompt_ids"] = std::move(prompt);
      return example;
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    return {{.input_ids = example.input_ids, .labels = example.labels}};
  }
  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows) count += count_targets(row);
    return count;
  }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    require_teacher(model, *parts_.teacher, "gkd");
    for (const BaseModule* writer : {&model, parts_.teacher.get()}) {
      const int64_t context = writer->config().max_position_embeddings;
      require<ConfigError>(context == 0 || arguments.gkd.max_new_tokens < context,
                           "[gkd] max_new_tokens must be below the context of student and teacher, ", context,
                           " tokens; got ", arguments.gkd.max_new_tokens, ".");
    }
  }

  // An evaluation looks at the data.
  GeneratedRows generate(const std::shared_ptr<BaseModule>& model,
                         const std::vector<std::vector<data::Example>>& batches,
                         const GenerationContext& context) override {
    const GkdArguments& gkd = context.arguments.gkd;
    const RandomKey key =
        RandomKey(static_cast<uint64_t>(context.arguments.seed)).fold("gkd").fold(static_cast<uint64_t>(context.step));
    const double drawn = static_cast<double>(key.fold("choice").bits() >> 11) * 0x1p-53;
    const bool by_student = !context.is_evaluation && drawn < gkd.lmbda.value_or(0);
    const bool by_teacher = !context.is_evaluation && !by_student && gkd.seq_kd;
    GeneratedRows out;
    if (!context.is_evaluation) out.metrics["on_policy"] = by_student ? 1 : 0;
    if (!by_student && !by_teacher) {
      std::vector<BatchRow>& rows = out.steps.emplace_back();
      for (const data::Example& example : batches.front()) rows.push_back(this->rows(example).front());
      return out;
    }
    RolloutFunction& rollouts = by_student ? parts_.student_rollouts : parts_.teacher_rollouts;
    if (!rollouts) {
      // The engine reads the teacher's weights; its interface is that of a model that may change.
      const auto writer = by_student ? model : std::const_pointer_cast<BaseModule>(parts_.teacher);
      rollouts = make_rollouts(writer, context.tokenizer, rollout_arguments(gkd));
    }
    add_written_rows(out, rollouts, 1, batches, key, *model, context);
    return out;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const GkdArguments& gkd = context.arguments.gkd;
    const TeacherPass pass(model, *parts_.teacher, batch, context, !gkd.disable_dropout);
    const auto sum = [beta = gkd.beta, temperature = gkd.temperature](
                         const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& labels) {
      return divergence_sum(student, teacher, labels, beta, temperature);
    };
    at::Tensor total =
        pass.sum_tokens(logits_at_once(gkd.logits_chunk_size, context.arguments, model), sum) / context.items;
    if (const auto& parallel = model.parallel()) total = collectives::sum(total, parallel->group(parallel->data()));
    ObjectiveLoss out{.loss = total[0], .metrics = {{"gkd_jsd_loss", total[0].detach()}}};
    const at::Tensor& mask = pass.prepared.token_mask;
    add_router_loss(out, model, context.arguments.loss(), mask.defined() ? mask : pass.prepared.attention_mask,
                    pass.ours, context.share);
    return out;
  }

 private:
  static RolloutArguments rollout_arguments(const GkdArguments& gkd) {
    RolloutArguments arguments;
    arguments.temperature = gkd.temperature;
    arguments.max_completion_length = gkd.max_new_tokens;
    return arguments;
  }

  GkdParts parts_;
};

}  // namespace

std::unique_ptr<Objective> make_gkd_objective(GkdParts parts) {
  return std::make_unique<GkdObjective>(std::move(parts));
}

}  // namespace easydel
