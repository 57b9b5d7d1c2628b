// How the types that only GenerationConfig has are read from JSON and written to it.
#pragma once

#include "easydel/generation/generation_config.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

template <>
struct FieldType<EarlyStopping> {
  static Json to_json(const EarlyStopping& value) {
    if (value == EarlyStopping::Never) return "never";
    return value == EarlyStopping::True;
  }
  static void from_json(const Json& json, EarlyStopping& value, const std::string& where) {
    if (json.is_bool()) {
      value = json.as_bool() ? EarlyStopping::True : EarlyStopping::False;
    } else if (json.is_string() && json.as_string() == "never") {
      value = EarlyStopping::Never;
    } else {
      wrong_type(where, name(), json);
    }
  }
  static std::string name() { return "true, false or \"never\""; }
  static std::string plural() { return "booleans"; }
};

template <>
struct FieldType<StopStrings> {
  static Json to_json(const StopStrings& strings) {
    return strings.values.size() == 1 ? Json(strings.values[0])
                                      : FieldType<std::vector<std::string>>::to_json(strings.values);
  }
  static void from_json(const Json& json, StopStrings& strings, const std::string& where) {
    if (json.is_string()) {
      strings.values = {json.as_string()};
    } else if (json.is_array()) {
      FieldType<std::vector<std::string>>::from_json(json, strings.values, where);
    } else {
      wrong_type(where, name(), json);
    }
  }
  static std::string name() { return "a string or a list of strings"; }
  static std::string plural() { return "strings"; }
};

template <>
struct FieldType<ExponentialDecay> {
  static Json to_json(const ExponentialDecay& decay) { return Json::array({decay.start, decay.factor}); }
  static void from_json(const Json& json, ExponentialDecay& decay, const std::string& where) {
    if (!json.is_array() || json.size() != 2) wrong_type(where, name(), json);
    FieldType<int64_t>::from_json(json.at(std::size_t{0}), decay.start, where + "[0]");
    FieldType<double>::from_json(json.at(std::size_t{1}), decay.factor, where + "[1]");
  }
  static std::string name() { return "a list of an integer and a number"; }
  static std::string plural() { return "pairs"; }
};

template <>
struct FieldType<SequenceBias> {
  static Json to_json(const SequenceBias& entry) {
    return Json::array({FieldType<std::vector<int64_t>>::to_json(entry.ids), FieldType<double>::to_json(entry.bias)});
  }
  static void from_json(const Json& json, SequenceBias& entry, const std::string& where) {
    if (!json.is_array() || json.size() != 2) wrong_type(where, name(), json);
    FieldType<std::vector<int64_t>>::from_json(json.at(std::size_t{0}), entry.ids, where + "[0]");
    FieldType<double>::from_json(json.at(std::size_t{1}), entry.bias, where + "[1]");
  }
  static std::string name() { return "a list of token ids and a number"; }
  static std::string plural() { return "pairs of a list of token ids and a number"; }
};

}  // namespace easydel
