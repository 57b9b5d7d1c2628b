// The arguments of prm: trl's keys and defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace easydel {

class FieldVisitor;

struct PrmArguments {
  std::string step_separator = "\n";
  std::optional<int64_t> max_completion_length;
  bool train_on_last_step_only = false;  // evaluations look at all steps
  bool disable_dropout = true;
};

void list_fields(PrmArguments& prm, FieldVisitor& v);

}  // namespace easydel
