// How each type that a config field may have is read from JSON, written to it and named in messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/infra/config/token_ids.h"

namespace easydel {

class FieldVisitor;
struct PartitionAxis;
struct RopeParameters;

using FieldList = std::function<void(FieldVisitor&)>;

// The specialization for T has to_json, from_json (ConfigError begins with `where`), and two names for messages.
template <class T>
struct FieldType;

// Throws "<where> must be <expected>; got <value>."
[[noreturn]] void wrong_type(const std::string& where, const std::string& expected, const Json& given);

// A plain type: what it is called, one and many.
#define EASYDEL_FIELD_TYPE(Type, one, many)                                         \
  template <>                                                                       \
  struct FieldType<Type> {                                                          \
    static Json to_json(const Type& value);                                         \
    static void from_json(const Json& json, Type& value, const std::string& where); \
    static std::string name() { return one; }                                       \
    static std::string plural() { return many; }                                    \
  }

using LabelNames = std::map<int64_t, std::string>;    // id2label
using LabelNumbers = std::map<std::string, int64_t>;  // label2id

EASYDEL_FIELD_TYPE(bool, "true or false", "booleans");
EASYDEL_FIELD_TYPE(int64_t, "an integer", "integers");
EASYDEL_FIELD_TYPE(double, "a number", "numbers");
EASYDEL_FIELD_TYPE(std::string, "a string", "strings");
EASYDEL_FIELD_TYPE(DType, "the name of a dtype", "names of dtypes");
EASYDEL_FIELD_TYPE(Json, "any value", "values");
EASYDEL_FIELD_TYPE(TokenIds, "an integer, a list of integers or null", "token ids");
EASYDEL_FIELD_TYPE(LabelNames, "an object from numbers to names", "objects");
EASYDEL_FIELD_TYPE(LabelNumbers, "an object from names to numbers", "objects");
EASYDEL_FIELD_TYPE(PartitionAxis, "an object of axis names", "objects");
#undef EASYDEL_FIELD_TYPE

template <class T>
struct FieldType<std::optional<T>> {
  static Json to_json(const std::optional<T>& value) { return value ? FieldType<T>::to_json(*value) : Json(); }
  static void from_json(const Json& json, std::optional<T>& value, const std::string& where) {
    if (json.is_null()) {
      value.reset();
      return;
    }
    T read{};
    FieldType<T>::from_json(json, read, where);
    value = std::move(read);
  }
  static std::string name() { return FieldType<T>::name() + " or null"; }
  static std::string plural() { return FieldType<T>::plural() + " or nulls"; }
};

template <class T>
struct FieldType<std::vector<T>> {
  static Json to_json(const std::vector<T>& values) {
    Json::Array array;
    for (const T& value : values) array.push_back(FieldType<T>::to_json(value));
    return array;
  }
  static void from_json(const Json& json, std::vector<T>& values, const std::string& where) {
    if (!json.is_array()) wrong_type(where, name(), json);
    values.assign(json.size(), T{});
    for (std::size_t i = 0; i < values.size(); ++i) {
      FieldType<T>::from_json(json.at(i), values[i], concat(where, "[", i, "]"));
    }
  }
  static std::string name() { return "a list of " + FieldType<T>::plural(); }
  static std::string plural() { return "lists of " + FieldType<T>::plural(); }
};

// A struct that lists its own fields through a free function list_fields(T&, FieldVisitor&) is an object in JSON.
Json nested_to_json(const FieldList& fields, const FieldList& defaults);
void nested_from_json(const FieldList& fields, const Json& json, const std::string& where);

template <class T>
  requires requires(T& value, FieldVisitor& visitor) { list_fields(value, visitor); }
struct FieldType<T> {
  static Json to_json(T value) {
    T defaults;
    return nested_to_json([&](FieldVisitor& v) { list_fields(value, v); },
                          [&](FieldVisitor& v) { list_fields(defaults, v); });
  }
  static void from_json(const Json& json, T& value, const std::string& where) {
    value = T{};
    nested_from_json([&](FieldVisitor& v) { list_fields(value, v); }, json, where);
  }
  static std::string name() { return "an object"; }
  static std::string plural() { return "objects"; }
};

}  // namespace easydel
