// The order of the keys of a JSON object: transformers sorts them, people do not.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "easydel/core/json/json.h"

namespace easydel {

inline bool keys_are_sorted(const Json& object) {
  const auto& entries = object.as_object();
  return std::is_sorted(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

inline Json with_sorted_keys(Json object) {
  if (keys_are_sorted(object)) return object;
  std::map<std::string, Json> entries;
  for (auto& [key, value] : object.as_object()) entries[key] = std::move(value);
  Json result = Json::object();
  for (auto& [key, value] : entries) result[key] = std::move(value);
  return result;
}

}  // namespace easydel
