// Attributes, items and slices, with the sandbox's rules about which of them a template may touch.
#include <algorithm>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

constexpr std::array<std::string_view, 8> kListChanges{"append", "clear",  "pop",    "reverse",
                                                       "insert", "extend", "remove", "sort"};
constexpr std::array<std::string_view, 5> kDictChanges{"clear", "pop", "popitem", "setdefault", "update"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value unsafe(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(
      concat("access to attribute ", quoted(name), " of ", quoted(type_name(object)), " object is unsafe."), true);
}

Value method(Runtime& runtime, const NamedMethod* found, const Value& object) {
  return found ? make_function(runtime, *found, object) : Value();
}

Value loop_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  auto& loop = object.as<LoopData>();
  const auto peek = [&]() -> const Value& {
    if (loop.after.is_missing()) {
      Value next;
      if (loop.iterator->next(next)) loop.after = std::move(next);
    }
    return loop.after;
  };
  if (name == "index") return loop.index0 + 1;
  if (name == "index0") return loop.index0;
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return peek().is_missing();
  if (name == "length") return loop_length(runtime, loop);
  if (name == "revindex") return loop_length(runtime, loop) - loop.index0;
  if (name == "revindex0") return loop_length(runtime, loop) - loop.index0 - 1;
  if (name == "depth") return loop.depth0 + 1;
  if (name == "depth0") return loop.depth0;
  if (name == "previtem") return loop.index0 == 0 ? runtime.undefined("there is no previous item") : loop.before;
  if (name == "nextitem") return peek().is_missing() ? runtime.undefined("there is no next item") : loop.after;
  return method(runtime, find_loop_method(name), object);
}

Value cycler_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const auto& cycler = object.as<CyclerData>();
  if (name == "current") return cycler.items[cycler.position];
  if (name == "pos") return static_cast<int64_t>(cycler.position);
  if (name == "items") return runtime.tuple(cycler.items);
  return method(runtime, find_cycler_method(name), object);
}

Value macro_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const Stmt& stmt = *object.as<MacroData>().stmt;
  if (name == "name") return stmt.kind == StmtKind::Macro ? runtime.string(stmt.name) : Value::none();
  if (name == "caller") return stmt.uses_caller;
  if (name == "catch_kwargs") return stmt.uses_kwargs;
  if (name == "catch_varargs") return stmt.uses_varargs;
  if (name != "arguments") return {};
  Values names;
  for (const std::string& parameter : stmt.parameters) names.push_back(runtime.string(parameter));
  return runtime.tuple(std::move(names));
}

Value number_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const bool whole = object.is_integral();
  if (name == "real" || (whole && name == "numerator")) return whole ? Value(object.integer()) : object;
  if (name == "imag") return whole ? Value(int64_t{0}) : Value(0.0);
  if (whole && name == "denominator") return int64_t{1};
  if ((name == "bit_length") != whole && name != "conjugate") return {};
  return method(runtime, find_number_method(name), object);
}

}  // namespace

Value find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) return unsafe(runtime, object, name);
  switch (object.type()) {
    case Type::String: return method(runtime, find_string_method(name), object);
    case Type::List:
      if (is_one_of(kListChanges, name)) return unsafe(runtime, object, name);
      return method(runtime, find_list_method(name), object);
    case Type::Tuple: {
      const auto& tuple = object.as<ListData>();
      if (tuple.group && name == "grouper") return tuple.items[0];
      if (tuple.group && name == "list") return tuple.items[1];
      return name == "copy" ? Value() : method(runtime, find_list_method(name), object);
    }
    case Type::Dict:
      if (is_one_of(kDictChanges, name)) return unsafe(runtime, object, name);
      return method(runtime, find_dict_method(name), object);
    case Type::Range: {
      const auto& range = object.as<RangeData>();
      if (name == "start") return range.start;
      if (name == "stop") return range.stop;
      if (name == "step") return range.step;
      return name == "copy" ? Value() : method(runtime, find_list_method(name), object);
    }
    case Type::Bool:
    case Type::Int:
    case Type::Float: return number_attribute(runtime, object, name);
    case Type::Namespace:
      runtime.spend(object.as<NamespaceData>().attributes.size() / 4);
      for (const auto& [attribute, value] : object.as<NamespaceData>().attributes) {
        if (same_text(runtime, attribute, name)) return value;
      }
      return {};
    case Type::Loop: return loop_attribute(runtime, object, name);
    case Type::Cycler: return cycler_attribute(runtime, object, name);
    case Type::Macro: return macro_attribute(runtime, object, name);
    case Type::Joiner:
      if (name == "sep") return object.as<JoinerData>().separator;
      if (name == "used") return object.as<JoinerData>().used;
      return {};
    case Type::Function:
      if (name == "fromkeys" && std::string_view(object.as<FunctionData>().name) == "dict") {
        return method(runtime, find_dict_method(name), object);
      }
      return {};
    default: return {};
  }
}

namespace {

Value no_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(concat(quoted(object_name(object)), " has no attribute ", quoted(name)));
}

// object[key] for whatever Python can index; missing when Python would raise a TypeError or a LookupError.
Value python_item(Runtime& runtime, const Value& object, const Value& key) {
  const auto index = [&](int64_t size) -> int64_t {
    if (!key.is_integral()) return -1;
    const int64_t at = key.integer() < 0 ? key.integer() + size : key.integer();
    return at < size ? at : -1;
  };
  switch (object.type()) {
    case Type::Dict: {
      const Type type = key.type();
      if (type == Type::List || type == Type::Dict || type == Type::Slice) return {};
      return dict_get(runtime, object.as<DictData>(), key);
    }
    case Type::List:
    case Type::Tuple: {
      const Values& items = object.as<ListData>().items;
      const int64_t at = index(static_cast<int64_t>(items.size()));
      return at < 0 ? Value() : items[at];
    }
    case Type::String: {
      const int64_t at = index(static_cast<int64_t>(object.string().length));
      return at < 0 ? Value() : substring(runtime, object, at, at + 1);
    }
    case Type::Range: {
      const auto& range = object.as<RangeData>();
      const int64_t at = index(range.size());
      return at < 0 ? Value() : range_item(range, at);
    }
    default: return {};
  }
}

// A bound of a slice, clamped to the sequence as Python does.
int64_t slice_bound(const Value& value, int64_t size, int64_t step, int64_t otherwise) {
  if (value.is_missing() || value.is_none()) return otherwise;
  if (!value.is_integral()) {
    refuse_undefined(value);
    raise("slice indices must be integers or None or have an __index__ method");
  }
  int64_t at = value.integer();
  if (at < 0) {
    at += size;
    if (at < 0) return step < 0 ? -1 : 0;
  } else if (at >= size) {
    return step < 0 ? size - 1 : size;
  }
  return at;
}

}  // namespace

Value make_function(Runtime& runtime, const NamedMethod& method, const Value& self) {
  auto* function = runtime.make<FunctionData>();
  function->name = method.name;
  function->call = method.call;
  function->self = self;
  return Value(Type::Function, function);
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  refuse_undefined(object);
  // Most attributes are keys of messages, none of which shares a name with a method of dict.
  Value found = find_attribute(runtime, object, name);
  if (!found.is_missing()) return found;
  if (object.is(Type::Dict)) found = dict_get(runtime, object.as<DictData>(), name);
  return found.is_missing() ? no_attribute(runtime, object, name) : found;
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  refuse_undefined(object);
  Value found = python_item(runtime, object, key);
  if (!found.is_missing()) return found;
  if (key.is_string()) {
    found = find_attribute(runtime, object, key.text());
    if (!found.is_missing()) return found;
    return runtime.undefined(concat(quoted(object_name(object)), " has no attribute ", to_repr(runtime, key)));
  }
  return runtime.undefined(concat(object_name(object), " has no element ", to_repr(runtime, key)));
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  refuse_undefined(object);
  const bool sliceable =
      object.is_string() || object.is(Type::List) || object.is(Type::Tuple) || object.is(Type::Range);
  if (object.is(Type::Dict)) raise("unhashable type: 'slice'");
  if (!sliceable) raise("'", type_name(object), "' object is not subscriptable");
  int64_t by = 1;
  if (!step.is_missing() && !step.is_none()) {
    refuse_undefined(step);
    if (!step.is_integral()) raise("slice indices must be integers or None or have an __index__ method");
    by = std::max<int64_t>(step.integer(), -INT64_MAX);
    if (by == 0) raise("slice step cannot be zero");
  }
  const int64_t size = require_length(runtime, object);
  const int64_t first = slice_bound(start, size, by, by < 0 ? size - 1 : 0);
  const int64_t last = slice_bound(stop, size, by, by < 0 ? -1 : size);
  if (object.is_string() && by == 1) return substring(runtime, object, first, last);
  if (object.is(Type::Range)) {
    const auto& range = object.as<RangeData>();
    auto* part = runtime.make<RangeData>();
    part->start = range.start + first * range.step;
    part->stop = range.start + last * range.step;
    part->step = checked_multiply(range.step, by);
    return Value(Type::Range, part);
  }
  RangeData picked;
  picked.start = first;
  picked.stop = last;
  picked.step = by;
  const int64_t count = picked.size();
  runtime.spend(static_cast<std::size_t>(count));
  if (object.is_string()) {
    const std::string& text = object.text();
    std::vector<std::size_t> offsets{0};  // where each character begins
    runtime.take(text.size() * sizeof(std::size_t));
    runtime.give(text.size() * sizeof(std::size_t));
    runtime.walk(text.size());
    for (std::size_t byte = 0; byte < text.size();) {
      next_character(text, byte);
      offsets.push_back(byte);
    }
    std::string out;
    for (int64_t i = 0, at = first; i < count; ++i, at += by) {
      out.append(text, offsets[at], offsets[at + 1] - offsets[at]);
    }
    return runtime.string(std::move(out), object.safe());
  }
  Values out;
  for (int64_t i = 0, at = first; i < count; ++i, at += by) out.push_back(object.as<ListData>().items[at]);
  return object.is(Type::List) ? runtime.list(std::move(out)) : runtime.tuple(std::move(out));
}

}  // namespace easydel::jinja
