#include "easydel/trainers/objectives/prm/prm_arguments.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_fields(PrmArguments& p, FieldVisitor& v) {
  v("step_separator", p.step_separator, "Text after each step; its last token carries the label.");
  v("max_completion_length", p.max_completion_length,
    "Maximum number of tokens of all steps together; null: no limit.");
  v("train_on_last_step_only", p.train_on_last_step_only, "Compute the training loss only on the last step.");
  v("disable_dropout", p.disable_dropout, "Train without dropout.");
}

}  // namespace easydel
