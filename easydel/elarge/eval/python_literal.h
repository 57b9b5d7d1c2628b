// What Python's ast.literal_eval reads: texts, numbers, True, False, None, lists, tuples and dicts of them.
#pragma once

#include <optional>
#include <string_view>

#include "easydel/core/json/json.h"

namespace easydel {

// Nothing if the text is not a literal, is nested deeper than 64, or has an integer of more than 64 bits. A tuple is an
// array, and the keys of a dict must be texts.
std::optional<Json> parse_python_literal(std::string_view text);

}  // namespace easydel
