#include "easydel/trainers/objectives/reference/reference_sync.h"

#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/arguments/argument_checker.h"

namespace easydel {

void list_fields(ReferenceSync& s, FieldVisitor& v) {
  v("sync_ref_model", s.sync_ref_model, "Move the reference towards the policy from time to time.");
  v("ref_model_mixup_alpha", s.ref_model_mixup_alpha, "Weight of the policy in such an update.");
  v("ref_model_sync_steps", s.ref_model_sync_steps, "Steps between such updates.");
}

void check(const ReferenceSync& s, const ArgumentChecker& c) {
  const ReferenceSync standard;
  c.between("ref_model_mixup_alpha", s.ref_model_mixup_alpha, 0, 1, "lie in [0, 1]");
  c.at_least("ref_model_sync_steps", s.ref_model_sync_steps, 1);
  if (s.sync_ref_model) return;
  constexpr std::string_view kTogether = "be used together with sync_ref_model";
  c.rule(s.ref_model_mixup_alpha == standard.ref_model_mixup_alpha, "ref_model_mixup_alpha", kTogether,
         s.ref_model_mixup_alpha);
  c.rule(s.ref_model_sync_steps == standard.ref_model_sync_steps, "ref_model_sync_steps", kTogether,
         s.ref_model_sync_steps);
}

}  // namespace easydel
