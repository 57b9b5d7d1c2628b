// What is different between the data of two runs, in words.
#pragma once

#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::data {

// Of two fingerprints (Dataset::fingerprint): "train.jsonl had 24 rows, now 30". None: rows come in the same order.
std::vector<std::string> data_changes(const Json& before, const Json& now);

}  // namespace easydel::data
