// Python's two kinds of string formatting: '%s' % value, and '{}'.format(value).
#pragma once

#include <cstdint>

#include <functional>
#include <string>
#include <string_view>

#include "easydel/text/jinja/runtime.h"

namespace easydel::jinja {

Value format_percent(Runtime& runtime, const Value& format, const Value& arguments);

// format(value, spec)
std::string format_value(Runtime& runtime, const Value& value, std::string_view spec);

// How '{0.name[key]}' finds its values.
struct FieldLookup {
  std::function<Value(int64_t index)> position;
  std::function<Value(const std::string& name)> name;
  std::function<Value(const Value& object, const std::string& name)> attribute;
  std::function<Value(const Value& object, const Value& key)> item;
};
std::string format_fields(Runtime& runtime, std::string_view format, const FieldLookup& lookup);

std::string ascii_repr(Runtime& runtime, const Value& value);

}  // namespace easydel::jinja
