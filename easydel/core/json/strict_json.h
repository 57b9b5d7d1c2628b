// JSON for other programs: values that JSON cannot represent (NaN, Infinity) are written as null.
#pragma once

#include <string>

#include "easydel/core/json/json.h"

namespace easydel {

// As Json::dump, which writes NaN and Infinity as Python does.
std::string dump_strict(const Json& value, int indent = -1);

}  // namespace easydel
