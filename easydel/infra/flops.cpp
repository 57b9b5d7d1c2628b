#include "easydel/infra/flops.h"

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"

namespace easydel {

double flops_per_token(const BaseModule& model, int64_t sequence_length) {
  require<ConfigError>(sequence_length >= 1, "[flops_per_token] sequence_length must be at least 1; got ",
                       sequence_length, ".");
  const double keys = (static_cast<double>(sequence_length) + 1) / 2;  // causal: the mean over positions
  double sum = 0;
  for (const auto& [path, module] : model.named_modules()) sum += module->own_flops_per_token(keys);
  return sum;
}

}  // namespace easydel
