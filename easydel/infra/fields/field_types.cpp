#include "easydel/infra/fields/field_types.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxValueLength = 80;

std::optional<int64_t> parse_int(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// transformers writes numbers that JSON lacks as {"__float__": "Infinity"}.
constexpr std::string_view kFloatTag = "__float__";

std::optional<double> tagged_float(const Json& json) {
  const Json* tag = json.find(kFloatTag);
  if (!tag || json.size() != 1 || !tag->is_string()) return std::nullopt;
  if (tag->as_string() == "Infinity") return std::numeric_limits<double>::infinity();
  if (tag->as_string() == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (tag->as_string() == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

}  // namespace

void wrong_type(const std::string& where, const std::string& expected, const Json& given) {
  std::string text = given.dump();
  if (text.size() > kMaxValueLength) text = text.substr(0, kMaxValueLength) + "…";
  fail<ConfigError>(where, " must be ", expected, "; got ", text, ".");
}

Json FieldType<bool>::to_json(const bool& value) { return value; }
void FieldType<bool>::from_json(const Json& json, bool& value, const std::string& where) {
  if (!json.is_bool()) wrong_type(where, name(), json);
  value = json.as_bool();
}

Json FieldType<int64_t>::to_json(const int64_t& value) { return value; }
void FieldType<int64_t>::from_json(const Json& json, int64_t& value, const std::string& where) {
  const bool integral = json.is_int() || (json.is_float() && std::abs(json.as_double()) < 0x1p53 &&
                                          std::trunc(json.as_double()) == json.as_double());
  if (!integral) wrong_type(where, name(), json);
  value = json.as_int();
}

Json FieldType<double>::to_json(const double& value) {
  if (std::isfinite(value)) return value;
  return Json::object({{kFloatTag, std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity"}});
}
void FieldType<double>::from_json(const Json& json, double& value, const std::string& where) {
  if (const auto tagged = tagged_float(json)) {
    value = *tagged;
    return;
  }
  if (!json.is_number()) wrong_type(where, name(), json);
  value = json.as_double();
}

Json FieldType<std::string>::to_json(const std::string& value) { return value; }
void FieldType<std::string>::from_json(const Json& json, std::string& value, const std::string& where) {
  if (!json.is_string()) wrong_type(where, name(), json);
  value = json.as_string();
}

Json FieldType<DType>::to_json(const DType& value) { return dtype_name(value); }
void FieldType<DType>::from_json(const Json& json, DType& value, const std::string& where) {
  if (!json.is_string()) wrong_type(where, name(), json);
  try {
    value = parse_dtype(json.as_string());
  } catch (const ConfigError&) {
    wrong_type(where, "the name of a dtype such as \"bfloat16\"", json);
  }
}

Json FieldType<Json>::to_json(const Json& value) { return value; }
void FieldType<Json>::from_json(const Json& json, Json& value, const std::string&) { value = json; }

Json FieldType<TokenIds>::to_json(const TokenIds& ids) {
  if (ids.empty()) return {};
  if (ids.size() == 1) return *ids.begin();
  return FieldType<std::vector<int64_t>>::to_json(ids.values());
}
void FieldType<TokenIds>::from_json(const Json& json, TokenIds& ids, const std::string& where) {
  std::vector<int64_t> values;
  if (json.is_array()) {
    FieldType<std::vector<int64_t>>::from_json(json, values, where);
  } else if (json.is_number()) {
    FieldType<int64_t>::from_json(json, values.emplace_back(), where);
  } else if (!json.is_null()) {
    wrong_type(where, name(), json);
  }
  ids = TokenIds(std::move(values));
}

Json FieldType<LabelNames>::to_json(const LabelNames& labels) {
  Json json = Json::object();
  for (const auto& [id, label] : labels) json[std::to_string(id)] = label;
  return json;
}
void FieldType<LabelNames>::from_json(const Json& json, LabelNames& labels, const std::string& where) {
  if (!json.is_object()) wrong_type(where, name(), json);
  labels.clear();
  for (const auto& [key, label] : json.as_object()) {
    const auto id = parse_int(key);
    if (!id) wrong_type(where, name(), json);
    FieldType<std::string>::from_json(label, labels[*id], where + "." + key);
  }
}

Json FieldType<LabelNumbers>::to_json(const LabelNumbers& numbers) {
  Json json = Json::object();
  for (const auto& [label, id] : numbers) json[label] = id;
  return json;
}
void FieldType<LabelNumbers>::from_json(const Json& json, LabelNumbers& numbers, const std::string& where) {
  if (!json.is_object()) wrong_type(where, name(), json);
  numbers.clear();
  for (const auto& [label, id] : json.as_object()) {
    if (const auto parsed = id.is_string() ? parse_int(id.as_string()) : std::nullopt) {
      numbers[label] = *parsed;
    } else {
      FieldType<int64_t>::from_json(id, numbers[label], where + "." + label);
    }
  }
}

}  // namespace easydel
