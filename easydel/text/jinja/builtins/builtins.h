// Built-in names of templates: filters, tests, globals, and the methods of values.
#pragma once

#include <cstdint>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/text/jinja/runtime.h"

namespace easydel::jinja {

class Interpreter;

struct Args {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A filter or a test; the value it is applied to is the first argument.
struct Builtin {
  const char* name;
  Value (*call)(Interpreter& interpreter, Args& args);
};
const Builtin* find_filter(std::string_view name);  // null: unknown
const Builtin* find_test(std::string_view name);

using Method = Value (*)(Interpreter& interpreter, const Value& self, Args& args);
struct FunctionData : Object {
  const char* name = "";
  Method call = nullptr;
  Value self;
};

struct NamedMethod {
  const char* name;
  Method call;
};
const NamedMethod* find_string_method(std::string_view name);
const NamedMethod* find_dict_method(std::string_view name);
const NamedMethod* find_list_method(std::string_view name);  // and of tuples
const NamedMethod* find_number_method(std::string_view name);
const NamedMethod* find_loop_method(std::string_view name);
const NamedMethod* find_cycler_method(std::string_view name);
const NamedMethod* find_global(std::string_view name);
Value make_function(Runtime& runtime, const NamedMethod& method, const Value& self);

// The arguments by name: missing where not given. The first `required` must be; the names before `keywords` are
// positional only.
template <std::size_t N>
std::array<Value, N> bind(const char* function, Args& args, const std::array<const char*, N>& names,
                          std::size_t required, std::size_t keywords = 0);

// The result of Python's getattr; missing when there is no such attribute.
Value find_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

// An argument that must be an integer; the default when it is missing.
int64_t integer_argument(const char* function, const Value& value, int64_t otherwise);
const std::string& string_argument(const char* function, const Value& value);

// Python's float(text) and int(text), limited to 64 bits; false when the text is not a number.
bool parse_python_float(std::string_view text, double& out);
bool parse_python_int(std::string_view text, int base, int64_t& out);

// Filters by topic, put together in filters.cpp.
std::vector<Builtin> text_filters();
std::vector<Builtin> sequence_filters();
std::vector<Builtin> selecting_filters();
std::vector<Builtin> number_filters();

Value dict_from(Interpreter& interpreter, Args& args);  // dict(…)

template <std::size_t N>
std::array<Value, N> bind(const char* function, Args& args, const std::array<const char*, N>& names,
                          std::size_t required, std::size_t keywords) {
  std::array<Value, N> out;
  if (args.positional.size() > N) {
    raise(function, "() takes at most ", N, " arguments (", args.positional.size(), " given)");
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) out[i] = args.positional[i];
  for (const auto& [name, value] : args.named) {
    std::size_t i = keywords;
    while (i < N && name != names[i]) ++i;
    if (i == N) raise(function, "() got an unexpected keyword argument '", name, "'");
    if (!out[i].is_missing()) raise(function, "() got multiple values for argument '", name, "'");
    out[i] = value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (out[i].is_missing()) raise(function, "() missing required argument: '", names[i], "'");
  }
  return out;
}

}  // namespace easydel::jinja
