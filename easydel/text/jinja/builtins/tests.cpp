#include <algorithm>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

template <bool (*Holds)(const Value&)>
Value is(Interpreter&, Args& args) {
  const auto [value] = bind<1>("test", args, {"value"}, 1);
  return Holds(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(Type::Bool); }
bool is_true(const Value& value) { return value.is(Type::Bool) && value.boolean(); }
bool is_false(const Value& value) { return value.is(Type::Bool) && !value.boolean(); }
bool is_integer(const Value& value) { return value.is(Type::Int); }
bool is_float(const Value& value) { return value.is(Type::Float); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is(Type::Dict); }
bool is_escaped(const Value& value) { return value.safe(); }

Value is_iterable_value(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("test", args, {"value"}, 1);
  refuse_strictly(in, value);
  return is_iterable(value);
}

Value is_sequence(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("test", args, {"value"}, 1);
  if (value.is_undefined() && in.strict_undefined() && !value.as<UndefinedData>().lenient) return false;
  return is_iterable(value) && !value.is(Type::View) && !value.is(Type::Generator);
}

bool is_callable(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
    case Type::Function:
    case Type::Macro:
    case Type::Loop:
    case Type::Joiner: return true;
    default: return false;
  }
}

template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value is_cased(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("test", args, {"value"}, 1);
  const std::string text = to_text(in, value);
  in.walk(text.size());
  bool found = false;
  for (std::size_t byte = 0; byte < text.size();) {
    const char32_t c = next_character(text, byte);
    if (Other(c) || is_title(c)) return false;
    found = found || Wanted(c);
  }
  return found;
}

template <Operator Op>
Value compares(Interpreter& in, Args& args) {
  const auto [a, b] = bind<2>("test", args, {"a", "b"}, 2, 2);
  return compare(in, Op, a, b);
}

bool leaves(Interpreter& in, const Value& value, const Value& by, int64_t rest) {
  return equal(in, binary(in, Operator::Modulo, value, by), Value(rest));
}

template <int64_t Rest>
Value is_parity(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("test", args, {"value"}, 1);
  return leaves(in, value, Value(int64_t{2}), Rest);
}

Value is_divisible(Interpreter& in, Args& args) {
  const auto [value, by] = bind<2>("divisibleby", args, {"value", "num"}, 2);
  return leaves(in, value, by, 0);
}

// Equal texts count as identical, as interned ones are in Python.
Value is_same(Interpreter& in, Args& args) {
  const auto [value, other] = bind<2>("sameas", args, {"value", "other"}, 2);
  return value.same(other) || (value.is_string() && other.is_string() && equal(in, value, other));
}

Value is_in(Interpreter& in, Args& args) {
  const auto [value, sequence] = bind<2>("in", args, {"value", "seq"}, 2);
  return contains(in, sequence, value);
}

template <const Builtin* (*Find)(std::string_view)>
Value is_known(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("test", args, {"value"}, 1);
  hash_of(in, value);
  return value.is_string() && Find(value.text()) != nullptr;
}

constexpr Builtin kTests[] = {
    {"!=", compares<Operator::NotEqual>},
    {"<", compares<Operator::Less>},
    {"<=", compares<Operator::LessEqual>},
    {"==", compares<Operator::Equal>},
    {">", compares<Operator::Greater>},
    {">=", compares<Operator::GreaterEqual>},
    {"boolean", is<is_boolean>},
    {"callable", is<is_callable>},
    {"defined", is<is_defined>},
    {"divisibleby", is_divisible},
    {"eq", compares<Operator::Equal>},
    {"equalto", compares<Operator::Equal>},
    {"escaped", is<is_escaped>},
    {"even", is_parity<0>},
    {"false", is<is_false>},
    {"filter", is_known<find_filter>},
    {"float", is<is_float>},
    {"ge", compares<Operator::GreaterEqual>},
    {"greaterthan", compares<Operator::Greater>},
    {"gt", compares<Operator::Greater>},
    {"in", is_in},
    {"integer", is<is_integer>},
    {"iterable", is_iterable_value},
    {"le", compares<Operator::LessEqual>},
    {"lessthan", compares<Operator::Less>},
    {"lower", is_cased<is_lower, is_upper>},
    {"lt", compares<Operator::Less>},
    {"mapping", is<is_mapping>},
    {"ne", compares<Operator::NotEqual>},
    {"none", is<is_none>},
    {"number", is<is_number>},
    {"odd", is_parity<1>},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is<is_string>},
    {"test", is_known<find_test>},
    {"true", is<is_true>},
    {"undefined", is<is_undefined>},
    {"upper", is_cased<is_upper, is_lower>},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const Builtin& test) { return name == test.name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace easydel::jinja
