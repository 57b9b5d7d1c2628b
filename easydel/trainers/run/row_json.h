// Rows that a model wrote, in a checkpoint.
#pragma once

#include "easydel/core/json/json.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {

// Ids, labels, numbers and series; exactly.
Json row_to_json(const BatchRow& row);
BatchRow row_from_json(const Json& json);

}  // namespace easydel
