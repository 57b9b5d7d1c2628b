#include "easydel/core/error.h"
#include "easydel/elarge/elarge_model.h"

namespace easydel {

Json ELargeModel::eval(const EvalArguments&) { fail<NotSupportedError>("[elarge] eval is not there yet."); }

}  // namespace easydel
