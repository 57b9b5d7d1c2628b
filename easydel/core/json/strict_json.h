// JSON for other programs: what no JSON number can say (NaN, Infinity) is written as null.
#pragma once

#include <string>

#include "easydel/core/json/json.h"

namespace easydel {

// As Json::dump, which writes NaN and Infinity as Python does.
std::string dump_strict(const Json& value, int indent = -1);

}  // namespace easydel
