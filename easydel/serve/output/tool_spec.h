// The tools that a request offers to the model, and whether it must call one.
#pragma once

#include <string>

#include "easydel/core/json/json.h"

namespace easydel::serve {

struct ToolSpec {
  std::string name;
  Json parameters;      // a JSON schema; null: any object
  bool strict = false;  // the arguments must follow the schema
};

enum class ToolChoice { None, Auto, Required, Named };

}  // namespace easydel::serve
