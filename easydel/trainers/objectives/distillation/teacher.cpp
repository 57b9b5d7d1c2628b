#include "easydel/trainers/objectives/distillation/teacher.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/operations/checkpoint.h"

namespace easydel {
namespace {

constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;  // of each model, when nothing says how many tokens

const CausalLMModule& language_model(const BaseModule& model) { return dynamic_cast<const CausalLMModule&>(model); }

}  // namespace

void require_teacher(const BaseModule& student, const BaseModule& teacher, const std::string& trainer_type) {
  for (const auto& [model, what] : {std::pair{&student, "student"}, {&teacher, "teacher"}}) {
    require<ConfigError>(dynamic_cast<const CausalLMModule*>(model) != nullptr, "[", trainer_type, "] the ", what,
                         " must be a causal language model; got ", model->type_name(), ".");
  }
  require<ConfigError>(student.config().vocab_size == teacher.config().vocab_size, "[", trainer_type,
                       "] student and teacher must have the same vocabulary; got ", student.config().vocab_size,
                       " and ", teacher.config().vocab_size, " tokens.");
  require_same_mesh(student, teacher, concat("[", trainer_type, "] the teacher"));
}

TeacherPass::TeacherPass(const BaseModule& of_student, const BaseModule& of_teacher, const Batch& batch,
                         const LossContext& context, bool with_dropout, bool with_hidden_states)
    : student(&language_model(of_student)), teacher(&language_model(of_teacher)), prepared(ModelInputs()) {
  ModelInputs inputs = batch.inputs();
  inputs.output_hidden_states = with_hidden_states;
  const PreparedInputs for_teacher = teacher->prepare_inputs_for_call(inputs);
  if (with_dropout) inputs.dropout_key = context.dropout_key;
  prepared = student->prepare_inputs_for_call(inputs);
  const RouterBalance balance = router_balance_of(of_student.config());
  prepared.output_router_logits =
      balance.top_k > 0 && (wants_router_loss(context.arguments) || balance.output_router_logits);
  {
    const at::NoGradGuard no_grad;
    theirs = teacher->base_model().forward(for_teacher);
  }
  ours = student->base_model().forward(prepared);
  ours.aux_loss = router_loss(*student, ours, prepared);
}

at::Tensor TeacherPass::sum_tokens(int64_t size, const Sums& of_chunk) const {
  const at::Tensor x = ours.last_hidden_state.flatten(0, 1), y = theirs.last_hidden_state.flatten(0, 1);
  const at::Tensor labels = prepared.targets.flatten();
  const int64_t tokens = x.size(0);
  at::Tensor sums;
  for (int64_t begin = 0; begin < tokens; begin += size) {
    const int64_t count = std::min(size, tokens - begin);
    const auto chunk = [student = student, teacher = teacher, of_chunk, wanted = y.narrow(0, begin, count),
                        label = labels.narrow(0, begin, count)](const operations::TensorList& hidden) {
      const at::Tensor teacher_logits = [&] {
        const at::NoGradGuard no_grad;
        return teacher->logits(wanted);
      }();
      return operations::TensorList{of_chunk(student->logits(hidden[0]), teacher_logits, label)};
    };
    const operations::TensorList part{x.narrow(0, begin, count)};
    const at::Tensor sum = (count == tokens ? chunk(part) : operations::checkpoint(chunk, part))[0];
    sums = sums.defined() ? sums + sum : sum;
  }
  return sums;
}

int64_t logits_at_once(std::optional<int64_t> given, const TrainingArguments& arguments, const BaseModule& student) {
  if (given) return *given;
  if (const int64_t size = arguments.loss().chunk_size; size > 0) return size;
  const int64_t most = std::max<int64_t>(kLogitsAtOnce / student.config().vocab_size, 1);
  return student.config().memory.lmhead_chunksize.value_or(most);
}

}  // namespace easydel
