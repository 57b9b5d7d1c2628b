#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/generators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

Value default_filter(Interpreter& in, Args& args) {
  const auto [value, otherwise, boolean] = bind<3>("default", args, {"value", "default_value", "boolean"}, 1);
  const bool replaced = value.is_undefined() || (truth(in, boolean) && !truth(in, value));
  if (!replaced) return value;
  return otherwise.is_missing() ? in.string("") : otherwise;
}

Value attribute_filter(Interpreter& in, Args& args) {
  const auto [object, name] = bind<2>("attr", args, {"obj", "name"}, 2);
  refuse_undefined(object);
  const std::string& wanted = string_argument("attr", name);
  const Value found = find_attribute(in, object, wanted);
  if (!found.is_missing()) return found;
  return in.undefined(concat(quoted(object_name(object)), " has no attribute ", quoted(wanted)));
}

// Applies `each` to the items of the filter's first argument; it returns whether the item is kept.
Value lazily(Interpreter& in, const Value& value, std::function<std::function<bool(Value&)>()> prepare) {
  struct State {
    GeneratorData* items = nullptr;
    std::function<bool(Value&)> each;
  };
  return make_generator(in, [&in, value, prepare = std::move(prepare), state = State()](Value& out) mutable {
    if (state.items == nullptr) {
      if (!truth(in, value)) return false;
      state.each = prepare();
      state.items = iterate(in, value);
    }
    for (Value item; state.items->next(item);) {
      if (!state.each(item)) continue;
      out = std::move(item);
      return true;
    }
    return false;
  });
}

Value map(Interpreter& in, Args& args) {
  const Value value = args.positional[0];
  return lazily(in, value, [&in, args]() -> std::function<bool(Value&)> {
    if (args.positional.size() == 1) {
      Value attribute, otherwise;
      for (const auto& [name, given] : args.named) {
        if (name == "attribute") attribute = given;
        if (name == "default") otherwise = given;
      }
      if (attribute.is_missing()) raise("map requires a filter argument");
      for (const auto& [name, given] : args.named) {
        if (name != "attribute" && name != "default") raise("Unexpected keyword argument ", quoted(name));
      }
      return [&in, path = AttributePath(in, attribute, otherwise)](Value& item) {
        item = path(in, item);
        return true;
      };
    }
    return [&in, args](Value& item) {
      in.spend(args.positional.size() + args.named.size());
      Args call{{item}, args.named};
      call.positional.insert(call.positional.end(), args.positional.begin() + 2, args.positional.end());
      if (!args.positional[1].is_string()) raise("No filter named ", to_repr(in, args.positional[1]), ".");
      item = in.call_filter(args.positional[1].text(), call);
      return true;
    };
  });
}

template <bool Keeps, bool ByAttribute>
Value select(Interpreter& in, Args& args) {
  const Value value = args.positional[0];
  return lazily(in, value, [&in, args]() -> std::function<bool(Value&)> {
    constexpr std::size_t kTest = ByAttribute ? 2 : 1;
    if (ByAttribute && args.positional.size() < 2) raise("Missing parameter for attribute name");
    const AttributePath path(in, ByAttribute ? args.positional[1] : Value());
    return [&in, args, path](Value& item) {
      const Value seen = path(in, item);
      if (args.positional.size() <= kTest) return truth(in, seen) == Keeps;
      in.spend(args.positional.size() + args.named.size());
      Args call{{seen}, args.named};
      call.positional.insert(call.positional.end(), args.positional.begin() + kTest + 1, args.positional.end());
      const Value& test = args.positional[kTest];
      if (!test.is_string()) raise("No test named ", to_repr(in, test), ".");
      return truth(in, in.call_test(test.text(), call)) == Keeps;
    };
  });
}

}  // namespace

std::vector<Builtin> selecting_filters() {
  return {{"attr", attribute_filter},       {"d", default_filter},
          {"default", default_filter},      {"map", map},
          {"reject", select<false, false>}, {"rejectattr", select<false, true>},
          {"select", select<true, false>},  {"selectattr", select<true, true>}};
}

}  // namespace easydel::jinja
