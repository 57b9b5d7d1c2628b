// Values as Python prints them.
#pragma once

#include <string>
#include <string_view>

#include "easydel/text/jinja/value.h"

namespace easydel::jinja {

std::string quoted(std::string_view text);  // Python's repr of a string
std::string print_float(double value);      // Python's repr of a float

void append_text(Runtime& runtime, const Value& value, std::string& out);  // str()
void append_repr(Runtime& runtime, const Value& value, std::string& out);
std::string to_text(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// Python's name of the type, and what Jinja's messages about missing attributes call an object.
const char* type_name(const Value& value);
std::string macro_name(const Value& macro);  // quoted, or "anonymous"
std::string object_name(const Value& value);

}  // namespace easydel::jinja
