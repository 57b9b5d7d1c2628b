// Describes the differences between the data of two runs.
#pragma once

#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::data {

// Compares two fingerprints (Dataset::fingerprint): "train.jsonl had 24 rows, now 30". Empty: the same order of rows.
std::vector<std::string> data_changes(const Json& before, const Json& now);

}  // namespace easydel::data
