// Distillation on completions that are written during the run: EasyDeL's keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "easydel/trainers/objectives/policy_arguments.h"

namespace easydel {

class ArgumentChecker;

struct WrittenDistillationArguments {
  RolloutArguments rollout = {.num_return_sequences = 1, .temperature = 0.7, .top_p = 0.95, .top_k = 50};
  // Not of seq_kd, which needs no distributions.
  double temperature = 2.0;  // of both of them
  double alpha = 0.9;        // what the loss is multiplied by
  std::optional<int64_t> logits_chunk_size;
  bool generate_with_teacher = false;  // on_policy_distillation: the teacher writes
  int64_t top_k_teacher = 20;          // sparse_distillation: tokens of which the teacher's probabilities are known
};

// seq_kd, on_policy_distillation and sparse_distillation.
bool distils_what_is_written(std::string_view trainer_type);
// Those, distillation and gkd.
bool has_teacher(std::string_view trainer_type);

void list_fields(WrittenDistillationArguments& written, std::string_view trainer_type, FieldVisitor& v);
void check_written(const WrittenDistillationArguments& written, const ArgumentChecker& c);

}  // namespace easydel
