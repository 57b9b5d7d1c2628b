// Strings in place of numbers.
#pragma once

#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

// The object with texts that read as numbers made numbers, where the field of that key takes one: YAML calls 1e-5 a
// text, and EasyDeL takes it for a number all the same.
Json with_numbers(Json object, const std::vector<FieldValue>& fields);

}  // namespace easydel
