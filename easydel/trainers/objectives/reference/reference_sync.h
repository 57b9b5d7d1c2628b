// A reference that follows the policy (https://huggingface.co/papers/2404.09656): EasyDeL's and trl's keys.
#pragma once

#include <cstdint>

namespace easydel {

class ArgumentChecker;
class FieldVisitor;

struct ReferenceSync {
  bool sync_ref_model = false;
  double ref_model_mixup_alpha = 0.9;  // weight of the policy: reference = alpha policy + (1 - alpha) reference
  int64_t ref_model_sync_steps = 64;

  bool is_due(int64_t step) const { return sync_ref_model && step % ref_model_sync_steps == 0; }
};

void list_fields(ReferenceSync& sync, FieldVisitor& v);
void check(const ReferenceSync& sync, const ArgumentChecker& c);

}  // namespace easydel
