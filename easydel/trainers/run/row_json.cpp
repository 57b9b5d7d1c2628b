#include "easydel/trainers/run/row_json.h"

#include <ATen/ATen.h>

#include <type_traits>

namespace easydel {
namespace {

template <class T>
Json to_json(const std::map<std::string, T>& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
  return json;
}

template <class T>
std::vector<T> list_of(const Json& json) {
  std::vector<T> values;
  for (const Json& value : json.as_array()) {
    if constexpr (std::is_same_v<T, double>) {
      values.push_back(value.as_double());
    } else {
      values.push_back(value.as_int());
    }
  }
  return values;
}

}  // namespace

Json row_to_json(const BatchRow& row) {
  return Json::object({{"input_ids", row.input_ids},
                       {"labels", row.labels},
                       {"numbers", to_json(row.numbers)},
                       {"series", to_json(row.series)}});
}

BatchRow row_from_json(const Json& json) {
  BatchRow row{.input_ids = list_of<int64_t>(json.at("input_ids")), .labels = list_of<int64_t>(json.at("labels"))};
  for (const auto& [name, value] : json.at("numbers").as_object()) row.numbers[name] = value.as_double();
  for (const auto& [name, values] : json.at("series").as_object()) row.series[name] = list_of<double>(values);
  return row;
}

}  // namespace easydel
