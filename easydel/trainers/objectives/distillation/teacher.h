// A student and a teacher with the same vocabulary on the same tokens.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "easydel/infra/decoder/decoder.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {

// ConfigError unless both are causal language models with the same vocabulary on the same mesh.
void require_teacher(const BaseModule& student, const BaseModule& teacher, const std::string& trainer_type);

// Both forward on the same batch, with gradients of the student alone.
struct TeacherPass {
  const CausalLMModule *student, *teacher;
  PreparedInputs prepared;   // the student's
  ModelOutput ours, theirs;  // their base models'

  TeacherPass(const BaseModule& student, const BaseModule& teacher, const Batch& batch, const LossContext& context,
              bool with_dropout, bool with_hidden_states = false);

  // From logits of student and teacher [n, V] and the labels [n] of the same tokens to sums over those that have one.
  using Sums =
      std::function<at::Tensor(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& labels)>;
  // Those of all tokens of this rank's part, computed in chunks whose logits backward recomputes, so that only one
  // chunk's are held at a time.
  at::Tensor sum_tokens(int64_t chunk, const Sums& sums) const;
};

// Tokens whose logits are held at once: as given, else as loss_config or the model says, else some million logits.
int64_t logits_at_once(std::optional<int64_t> given, const TrainingArguments& arguments, const BaseModule& student);

}  // namespace easydel
