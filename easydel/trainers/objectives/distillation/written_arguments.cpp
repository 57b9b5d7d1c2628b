#include "easydel/trainers/objectives/distillation/written_arguments.h"

#include <cmath>

#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/arguments/argument_checker.h"

namespace easydel {

bool distils_what_is_written(std::string_view type) {
  return type == "seq_kd" || type == "on_policy_distillation" || type == "sparse_distillation";
}

bool has_teacher(std::string_view type) {
  return type == "distillation" || type == "gkd" || distils_what_is_written(type);
}

void list_fields(WrittenDistillationArguments& w, std::string_view type, FieldVisitor& v) {
  RolloutArguments& r = w.rollout;
  v("max_prompt_length", r.max_prompt_length, "Maximum number of prompt tokens; null: no limit.");
  v("max_completion_length", r.max_completion_length, "Maximum number of tokens per completion.");
  v("num_generations_per_prompt", r.num_return_sequences, "Completions per prompt.");
  v("temperature_sampling", r.temperature, "Sampling temperature.");
  v("top_p", r.top_p, "Sample from the smallest set of most likely tokens with this total probability.");
  v("top_k", r.top_k, "Sample from this many most likely tokens; null or 0: all.");
  list_penalty_fields(r, v);
  if (type == "seq_kd") return;
  v("temperature", w.temperature, "Softmax temperature of both models.");
  v("alpha", w.alpha, "Weight of the loss.");
  v("logits_chunk_size", w.logits_chunk_size, "Tokens whose logits are computed at once; null: automatic.");
  if (type == "on_policy_distillation")
    v("generate_with_teacher", w.generate_with_teacher,
      "Generate completions with the teacher instead of the student.");
  if (type == "sparse_distillation")
    v("top_k_teacher", w.top_k_teacher, "Number of the teacher's most likely tokens that the student is trained on.");
}

void check_written(const WrittenDistillationArguments& w, const ArgumentChecker& c) {
  const RolloutArguments& r = w.rollout;
  c.at_least("max_prompt_length", r.max_prompt_length, 1);
  c.at_least("max_completion_length", r.max_completion_length, 1);
  c.at_least("num_generations_per_prompt", r.num_return_sequences, 1);
  c.positive("temperature_sampling", r.temperature);
  c.rule(r.top_p > 0 && r.top_p <= 1, "top_p", "lie in (0, 1]", r.top_p);
  c.at_least("top_k", r.top_k, 0);
  c.between("presence_penalty", r.presence_penalty, -2, 2, "lie in [-2, 2]");
  c.between("frequency_penalty", r.frequency_penalty, -2, 2, "lie in [-2, 2]");
  c.positive("repetition_penalty", r.repetition_penalty);
  c.positive("temperature", w.temperature);
  c.between("alpha", w.alpha, 0, 1, "lie in [0, 1]");
  c.at_least("logits_chunk_size", w.logits_chunk_size, 1);
  c.at_least("top_k_teacher", w.top_k_teacher, 1);
}

}  // namespace easydel
