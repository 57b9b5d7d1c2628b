// Generators from functions, and look-ups shared by several filters.
#pragma once

#include <functional>

#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"

namespace easydel::jinja {

struct FunctionGenerator : GeneratorData {
  FunctionGenerator(Runtime& runtime, std::function<bool(Value&)> function)
      : runtime(runtime), function(std::move(function)) {}
  bool next(Value& out) override {
    const Nested nested(runtime);
    runtime.spend(1);
    return !finished && (function(out) || !(finished = true));
  }
  Runtime& runtime;
  std::function<bool(Value&)> function;
  bool finished = false;
};

inline Value make_generator(Runtime& runtime, std::function<bool(Value&)> next) {
  return Value(Type::Generator, runtime.make<FunctionGenerator>(runtime, std::move(next)));
}

// As jinja2's make_attrgetter: "a.b.0" is a path of keys. A missing or none attribute means the item itself.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& attribute, Value otherwise = {});
  Value operator()(Runtime& runtime, Value item) const;

 private:
  Values keys_;
  Value otherwise_;
};

Value ignore_case(Runtime& runtime, const Value& value);

}  // namespace easydel::jinja
