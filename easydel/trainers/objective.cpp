#include "easydel/trainers/objective.h"

#include "easydel/core/error.h"
#include "easydel/infra/loss_config.h"

namespace easydel {

double count_targets(const BatchRow& row) {
  double count = 0;
  for (std::size_t i = 1; i < row.labels.size(); ++i) {
    const bool begins = !row.segment_ids.empty() && row.segment_ids[i] != row.segment_ids[i - 1];
    if (row.labels[i] != -100 && !begins) ++count;
  }
  return count;
}

double router_coefficient(const BaseModule& model, const LossConfig& config) {
  if (config.auxiliary_loss_coefficient) return *config.auxiliary_loss_coefficient;
  const Json json = model.config().to_dict();
  const Json* known = json.find("router_aux_loss_coef");
  return known && known->is_number() ? known->as_double() : 0.0;
}

void require_same_mesh(const BaseModule& model, const BaseModule& other, const std::string& what) {
  const auto name = [](const BaseModule& m) { return m.parallel() ? m.mesh().to_string() : std::string("no mesh"); };
  require<ConfigError>(name(model) == name(other), what, " must lie on the model's mesh, ", name(model), "; got ",
                       name(other), ".");
}

}  // namespace easydel
