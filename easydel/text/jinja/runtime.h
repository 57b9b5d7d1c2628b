// One rendering: its memory, and its limits.
#pragma once

#include <cstdint>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/text/jinja/value.h"

namespace easydel::jinja {

// Resource limits of a rendering. A template that exceeds them ends with an error.
struct Limits {
  int64_t steps = 20'000'000;       // evaluated nodes, visited items, and every few bytes of their text
  int64_t output = 64 << 20;        // bytes of the rendered text
  int64_t memory = 256 << 20;       // bytes of all values
  int depth = 1000;                 // nested evaluations: macros, recursive loops, nested values
  int64_t template_size = 1 << 20;  // bytes of the template
};

// Thrown internally; the line is added at the boundary.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  throw Failure(concat(parts...));
}

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }
  void be_strict(bool strict) { strict_undefined_ = strict; }
  bool strict_undefined() const { return strict_undefined_; }
  void spend(std::size_t steps);                        // raises when the limit is exceeded
  void touch(std::size_t bytes) { spend(bytes / 16); }  // of text that is copied, compared, hashed or searched
  void walk(std::size_t bytes) { spend(bytes / 4); }    // the same, character by character
  void take(std::size_t bytes);                         // called before that much memory is used
  void check_text(std::size_t bytes) const;             // raises for a text longer than the output limit
  void give(std::size_t bytes) { memory_ -= static_cast<int64_t>(bytes); }

  Value string(std::string text, bool safe = false);
  Value list(Values items) { return sequence(Type::List, std::move(items)); }
  Value tuple(Values items) { return sequence(Type::Tuple, std::move(items)); }
  Value dict() { return Value(Type::Dict, make<DictData>()); }
  Value undefined(std::string message, bool unsafe = false);

  template <class T, class... Args>
  T* make(Args&&... args) {
    take(sizeof(T) + 16);
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

 private:
  friend class Nested;
  Value sequence(Type type, Values items);

  Limits limits_;
  bool strict_undefined_ = false;
  int64_t steps_ = 0;
  int64_t memory_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

// One level of nesting during its lifetime.
class Nested {
 public:
  explicit Nested(Runtime& runtime) : runtime_(runtime) {
    if (++runtime_.depth_ > runtime_.limits_.depth) fail();
  }
  ~Nested() { --runtime_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  [[noreturn]] void fail();
  Runtime& runtime_;
};

}  // namespace easydel::jinja
