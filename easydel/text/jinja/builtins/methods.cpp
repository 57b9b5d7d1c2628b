// Methods of everything but strings, and the globals.
#include <algorithm>
#include <bit>
#include <cmath>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/clock.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // MAX_RANGE of jinja2's sandbox

template <ViewData::Kind Kind>
Value view_of(Interpreter& in, const Value& self, Args& args) {
  bind<0>("keys", args, {}, 0);
  auto* view = in.make<ViewData>();
  view->kind = Kind;
  view->dict = &self.as<DictData>();
  return Value(Type::View, view);
}

Value dict_get_method(Interpreter& in, const Value& self, Args& args) {
  const auto [key, otherwise] = bind<2>("get", args, {"key", "default"}, 1, 2);
  const Value found = dict_get(in, self.as<DictData>(), key);
  if (!found.is_missing()) return found;
  return otherwise.is_missing() ? Value::none() : otherwise;
}

Value dict_copy(Interpreter& in, const Value& self, Args& args) {
  bind<0>("copy", args, {}, 0);
  const Value out = in.dict();
  for (const auto& [key, value] : self.as<DictData>().entries) dict_set(in, out.as<DictData>(), key, value);
  return out;
}

Value dict_from_keys(Interpreter& in, const Value&, Args& args) {
  const auto [keys, value] = bind<2>("fromkeys", args, {"iterable", "value"}, 1, 2);
  const Value out = in.dict();
  for (const Value& key : to_values(in, keys)) {
    dict_set(in, out.as<DictData>(), key, value.is_missing() ? Value::none() : value);
  }
  return out;
}

constexpr NamedMethod kDictMethods[] = {
    {"get", dict_get_method},
    {"items", view_of<ViewData::Items>},
    {"keys", view_of<ViewData::Keys>},
    {"values", view_of<ViewData::Contents>},
    {"copy", dict_copy},
    {"fromkeys", dict_from_keys},
};

Value list_count(Interpreter& in, const Value& self, Args& args) {
  const auto [wanted] = bind<1>("count", args, {"value"}, 1, 1);
  int64_t count = 0;
  for (const Value& item : to_values(in, self)) count += item.same(wanted) || equal(in, item, wanted);
  return count;
}

Value list_index(Interpreter& in, const Value& self, Args& args) {
  const auto [wanted, start, stop] = bind<3>("index", args, {"value", "start", "stop"}, 1, 3);
  const Values items = to_values(in, self);
  const auto size = static_cast<int64_t>(items.size());
  const auto bound = [&](const Value& value, int64_t otherwise) {
    const int64_t at = integer_argument("index", value, otherwise);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t end = std::min(bound(stop, size), size);
  for (int64_t i = bound(start, 0); i < end; ++i) {
    if (items[i].same(wanted) || equal(in, items[i], wanted)) return i;
  }
  raise(to_repr(in, wanted), " is not in list");
}

Value list_copy(Interpreter& in, const Value& self, Args& args) {
  bind<0>("copy", args, {}, 0);
  return in.list(self.as<ListData>().items);
}

constexpr NamedMethod kListMethods[] = {{"count", list_count}, {"index", list_index}, {"copy", list_copy}};

Value bit_length(Interpreter&, const Value& self, Args& args) {
  bind<0>("bit_length", args, {}, 0);
  const int64_t value = self.integer();
  return static_cast<int64_t>(std::bit_width(value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value)));
}

Value is_integer(Interpreter&, const Value& self, Args& args) {
  bind<0>("is_integer", args, {}, 0);
  return std::isfinite(self.number()) && self.number() == std::floor(self.number());
}

Value conjugate(Interpreter&, const Value& self, Args& args) {
  bind<0>("conjugate", args, {}, 0);
  return positive(self);
}

constexpr NamedMethod kNumberMethods[] = {
    {"bit_length", bit_length}, {"is_integer", is_integer}, {"conjugate", conjugate}};

Value loop_cycle(Interpreter&, const Value& self, Args& args) {
  if (!args.named.empty()) raise("cycle() takes no keyword arguments");
  if (args.positional.empty()) raise("no items for cycling given");
  return args.positional[self.as<LoopData>().index0 % args.positional.size()];
}

Value loop_changed(Interpreter& in, const Value& self, Args& args) {
  if (!args.named.empty()) raise("changed() takes no keyword arguments");
  auto& loop = self.as<LoopData>();
  Value now = in.tuple(args.positional);
  if (!loop.last_changed.is_missing() && equal(in, loop.last_changed, now)) return false;
  loop.last_changed = now;
  return true;
}

constexpr NamedMethod kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

Value cycler_next(Interpreter&, const Value& self, Args& args) {
  bind<0>("next", args, {}, 0);
  auto& cycler = self.as<CyclerData>();
  const Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(Interpreter&, const Value& self, Args& args) {
  bind<0>("reset", args, {}, 0);
  self.as<CyclerData>().position = 0;
  return Value::none();
}

constexpr NamedMethod kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

Value make_range(Interpreter& in, const Value&, Args& args) {
  const auto [a, b, c] = bind<3>("range", args, {"start", "stop", "step"}, 1, 3);
  auto* range = in.make<RangeData>();
  const int64_t first = integer_argument("range", a, 0);
  range->start = b.is_missing() ? 0 : first;
  range->stop = b.is_missing() ? first : integer_argument("range", b, 0);
  range->step = integer_argument("range", c, 1);
  if (range->step == 0) raise("range() arg 3 must not be zero");
  if (range->size() > kMaxRange) {
    raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  }
  return Value(Type::Range, range);
}

Value make_dict(Interpreter& in, const Value&, Args& args) { return dict_from(in, args); }

Value make_namespace(Interpreter& in, const Value&, Args& args) {
  const Value from = dict_from(in, args);
  auto* space = in.make<NamespaceData>();
  for (const auto& [key, value] : from.as<DictData>().entries) {
    if (key.is_string()) set_namespace(in, *space, key.text(), value);
  }
  return Value(Type::Namespace, space);
}

Value make_cycler(Interpreter& in, const Value&, Args& args) {
  if (!args.named.empty()) raise("cycler() takes no keyword arguments");
  if (args.positional.empty()) raise("at least one item has to be provided");
  auto* cycler = in.make<CyclerData>();
  cycler->items = args.positional;
  return Value(Type::Cycler, cycler);
}

Value make_joiner(Interpreter& in, const Value&, Args& args) {
  const auto [separator] = bind<1>("joiner", args, {"sep"}, 0);
  auto* joiner = in.make<JoinerData>();
  joiner->separator = separator.is_missing() ? in.string(", ") : separator;
  return Value(Type::Joiner, joiner);
}

Value raise_exception(Interpreter& in, const Value&, Args& args) {
  const auto [message] = bind<1>("raise_exception", args, {"message"}, 1);
  raise(to_text(in, message));
}

Value strftime_now(Interpreter& in, const Value&, Args& args) {
  const auto [format] = bind<1>("strftime_now", args, {"format"}, 1);
  constexpr std::size_t kMaxLength = 4096;
  if (string_argument("strftime_now", format).size() > kMaxLength) {
    raise("strftime_now() takes a format of at most ", kMaxLength, " bytes (a limit of this engine)");
  }
  in.spend(10 * format.text().size());
  return in.string(format_time(format.text(), in.now()));
}

constexpr NamedMethod kGlobals[] = {
    {"range", make_range},          {"dict", make_dict},     {"namespace", make_namespace},
    {"cycler", make_cycler},        {"joiner", make_joiner}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

template <std::size_t N>
const NamedMethod* find_in(const NamedMethod (&methods)[N], std::string_view name) {
  for (const NamedMethod& method : methods) {
    if (name == method.name) return &method;
  }
  return nullptr;
}

}  // namespace

const NamedMethod* find_dict_method(std::string_view name) { return find_in(kDictMethods, name); }
const NamedMethod* find_list_method(std::string_view name) { return find_in(kListMethods, name); }
const NamedMethod* find_number_method(std::string_view name) { return find_in(kNumberMethods, name); }
const NamedMethod* find_loop_method(std::string_view name) { return find_in(kLoopMethods, name); }
const NamedMethod* find_cycler_method(std::string_view name) { return find_in(kCyclerMethods, name); }
const NamedMethod* find_global(std::string_view name) { return find_in(kGlobals, name); }

Value dict_from(Interpreter& in, Args& args) {
  if (args.positional.size() > 1) raise("dict expected at most 1 argument, got ", args.positional.size());
  const Value out = in.dict();
  auto& dict = out.as<DictData>();
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Type::Dict)) {
      for (const auto& [key, value] : from.as<DictData>().entries) dict_set(in, dict, key, value);
    } else {
      int64_t index = 0;
      GeneratorData* items = iterate(in, from);
      for (Value item; items->next(item); ++index) {
        if (!is_iterable(item)) {
          raise("cannot convert dictionary update sequence element #", index, " to a sequence");
        }
        const Values pair = to_values(in, item);
        if (pair.size() != 2) {
          raise("dictionary update sequence element #", index, " has length ", pair.size(), "; 2 is required");
        }
        dict_set(in, dict, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) dict_set(in, dict, in.string(name), value);
  return out;
}

void set_namespace(Runtime& runtime, NamespaceData& space, const std::string& name, const Value& value) {
  if (name.starts_with("_")) {
    raise("Chat templates cannot store underscore-prefixed attributes on a namespace, but got ", quoted(name),
          ". Please rename the attribute.");
  }
  runtime.spend(space.attributes.size() / 4);
  for (auto& [key, held] : space.attributes) {
    if (!same_text(runtime, key, name)) continue;
    held = value;
    return;
  }
  runtime.take(name.size() + sizeof(space.attributes[0]));
  space.attributes.emplace_back(name, value);
}

int64_t integer_argument(const char* function, const Value& value, int64_t otherwise) {
  if (value.is_missing()) return otherwise;
  refuse_undefined(value);
  if (!value.is_integral()) {
    raise(function, "(): '", type_name(value), "' object cannot be interpreted as an integer");
  }
  return value.integer();
}

const std::string& string_argument(const char* function, const Value& value) {
  if (!value.is_string()) raise(function, "() argument must be str, not ", type_name(value));
  return value.text();
}

}  // namespace easydel::jinja
