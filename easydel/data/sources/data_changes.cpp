#include "easydel/data/sources/data_changes.h"

#include "easydel/core/error.h"

namespace easydel::data {
namespace {

const Json* list_in(const Json& fingerprint, const char* key) {
  const Json* list = fingerprint.find(key);
  return list && list->is_array() ? list : nullptr;
}

std::string name_at(const Json& fingerprint, std::size_t i) {
  const Json* names = list_in(fingerprint, "names");
  return names && i < names->size() ? names->at(i).as_string() : concat("data set ", i + 1);
}

std::string all_names(const Json& fingerprint, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += concat(i ? ", " : "", name_at(fingerprint, i));
  return text;
}

}  // namespace

std::vector<std::string> data_changes(const Json& before, const Json& now) {
  std::vector<std::string> changes;
  const Json *old_rows = list_in(before, "rows"), *rows = list_in(now, "rows");
  if (old_rows && rows && old_rows->size() != rows->size()) {
    return {concat("the data was ", all_names(before, old_rows->size()), ", now ", all_names(now, rows->size()))};
  }
  const Json *old_digests = list_in(before, "digests"), *digests = list_in(now, "digests");
  for (std::size_t i = 0; old_rows && rows && i < rows->size(); ++i) {
    const std::string old_name = name_at(before, i), name = name_at(now, i);
    const bool same_rows = old_rows->at(i) == rows->at(i);
    const bool same_content = !old_digests || !digests || old_digests->at(i) == digests->at(i);
    if (same_rows && same_content) continue;
    if (old_name != name) {
      changes.push_back(concat("the data was ", old_name, ", now ", name));
    } else if (!same_rows) {
      changes.push_back(concat(name, " had ", old_rows->at(i).dump(), " rows, now ", rows->at(i).dump()));
    } else {
      changes.push_back(concat("the rows of ", name, " changed"));
    }
  }
  if (!changes.empty()) return changes;
  for (const auto& [key, value] : now.as_object()) {
    if (key == "names" || key == "digests") continue;
    const Json* old = before.find(key);
    if (!old || !(*old == value))
      changes.push_back(concat(key, " of the data was ", old ? old->dump() : "not set", ", now ", value.dump()));
  }
  return changes;
}

}  // namespace easydel::data
