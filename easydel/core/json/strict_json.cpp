#include "easydel/core/json/strict_json.h"

#include <cmath>

namespace easydel {
namespace {

void replace_non_finite(Json& value) {
  if (value.is_float()) {
    if (!std::isfinite(value.as_double())) value = Json();
  } else if (value.is_array()) {
    for (Json& item : value.as_array()) replace_non_finite(item);
  } else if (value.is_object()) {
    for (auto& [key, item] : value.as_object()) replace_non_finite(item);
  }
}

}  // namespace

std::string dump_strict(const Json& value, int indent) {
  Json copy = value;
  replace_non_finite(copy);
  return copy.dump(indent);
}

}  // namespace easydel
