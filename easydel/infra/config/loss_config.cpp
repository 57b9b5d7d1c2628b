#include "easydel/infra/config/loss_config.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

void require_one_of(std::string_view key, const std::string& value, std::initializer_list<std::string_view> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  std::string known;
  for (const std::string_view name : allowed) known += concat(known.empty() ? "" : ", ", name);
  fail<ConfigError>("[LossConfig] ", key, " must be one of ", known, "; got \"", value, "\".");
}

void list_fields(LossConfig& c, FieldVisitor& v) {
  v("loss_type", c.loss_type, "Type of loss.");
  v("ignore_index", c.ignore_index, "Label that is ignored in the loss.");
  v("label_smoothing", c.label_smoothing, "Label smoothing: fraction of the target spread over all classes.");
  v("z_loss_coefficient", c.z_loss_coefficient, "Weight of the squared log partition function.", {"z_loss"});
  v("auxiliary_loss_coefficient", c.auxiliary_loss_coefficient, "Weight of the routers' load-balancing loss.");
  v("shift_tokens", c.shift_tokens, "Whether each position predicts the next label.");
  v("reduction", c.reduction, "mean, sum or none.");
  v("num_items_in_batch", c.num_items_in_batch, "Divisor of the mean.");
  v("chunk_size", c.chunk_size, "Tokens whose logits are held at once.");
  v("problem_type", c.problem_type, "Type of a classifier's prediction.");
}

}  // namespace

void LossConfig::validate() const {
  require_one_of("loss_type", loss_type, {"cross_entropy"});
  require_one_of("reduction", reduction, {"mean", "sum", "none"});
  require<ConfigError>(label_smoothing >= 0 && label_smoothing < 1,
                       "[LossConfig] label_smoothing must lie in [0, 1); got ", label_smoothing, ".");
  require<ConfigError>(z_loss_coefficient >= 0, "[LossConfig] z_loss_coefficient must not be negative; got ",
                       z_loss_coefficient, ".");
  require<ConfigError>(chunk_size >= 0, "[LossConfig] chunk_size must not be negative; got ", chunk_size, ".");
  require<ConfigError>(!num_items_in_batch || *num_items_in_batch > 0,
                       "[LossConfig] num_items_in_batch must be positive; got ", num_items_in_batch.value_or(0), ".");
  if (problem_type) {
    require_one_of("problem_type", *problem_type,
                   {"regression", "single_label_classification", "multi_label_classification"});
  }
}

LossConfig LossConfig::with(const Json& changes) const {
  LossConfig changed = *this;
  const FieldList fields = [&](FieldVisitor& v) { list_fields(changed, v); };
  std::vector<std::string> known;
  for (const FieldValue& field : collect_fields(fields)) {
    known.push_back(field.key);
    known.insert(known.end(), field.aliases.begin(), field.aliases.end());
  }
  for (const auto& [key, value] : changes.as_object()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    fail<ConfigError>("[LossConfig] there is no \"", key, "\".",
                      near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  read_fields(fields, changes, [](std::string_view key) { return concat("[LossConfig] ", key); });
  changed.validate();
  return changed;
}

}  // namespace easydel
