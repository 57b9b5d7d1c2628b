#include "easydel/infra/hooks.h"

#include "easydel/core/error.h"

namespace easydel {
namespace {

constinit Hooks current_hooks;

}  // namespace

const Hooks& hooks() { return current_hooks; }

void set_hooks(const Hooks& hooks) { current_hooks = hooks; }

void fail_unset_hook(const char* name) {
  fail<Error>("[", name, "] this program was linked without the part of easydel that does it: Hooks::", name,
              " is not set. Link all of libeasydel, or call set_hooks.");
}

}  // namespace easydel
