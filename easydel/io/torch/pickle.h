// A pickle parsed as data: plain values, and calls that are recorded but never made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace easydel {

struct PickleNone {};
struct PickleLong {  // an int past 64 bits: two's complement, little-endian
  std::string_view bytes;
};
struct PickleStr {  // UTF-8
  std::string_view text;
};
struct PickleBytes {
  std::string_view data;
};
struct PickleGlobal {  // "torch.FloatStorage"
  std::string_view name;
};
struct PickleSequence;
struct PickleDict;
struct PickleCall;
struct PicklePersistent;

// Text points into the pickle's bytes and containers into the Pickle, which may share them and hold cycles.
using PickleValue = std::variant<PickleNone, bool, int64_t, double, PickleLong, PickleStr, PickleBytes, PickleGlobal,
                                 const PickleSequence*, const PickleDict*, const PickleCall*, const PicklePersistent*>;

struct PickleSequence {
  enum class Kind { Tuple, List, Set } kind;
  std::vector<PickleValue> items;
};
struct PickleDict {  // OrderedDict too; in the order of the file; keys may repeat
  std::vector<std::pair<PickleValue, PickleValue>> items;
};
struct PickleCall {  // what Python would have called
  std::string_view callee;
  const PickleSequence* arguments;
};
struct PicklePersistent {  // refers to something outside the pickle
  PickleValue id;
};

// The value if it is a T, and null otherwise: held<PickleDict>(value), held<int64_t>(value).
template <class T>
const T* held(const PickleValue& value) {
  constexpr bool is_container = std::is_same_v<T, PickleSequence> || std::is_same_v<T, PickleDict> ||
                                std::is_same_v<T, PickleCall> || std::is_same_v<T, PicklePersistent>;
  if constexpr (is_container) {
    const auto* pointer = std::get_if<const T*>(&value);
    return pointer ? *pointer : nullptr;
  } else {
    return std::get_if<T>(&value);
  }
}

std::string_view pickle_type_name(const PickleValue& value);  // "None", "a str", "a dict", …

struct PickleOptions {
  std::string where = "pickle";  // named in errors
  // Names that are allowed in addition to those of plain values. Any other is an error. Must outlive the Pickle.
  std::span<const std::string_view> globals;
  std::size_t max_objects = std::size_t{1} << 22;
  std::size_t max_stack = std::size_t{1} << 22;
  std::size_t max_memo = std::size_t{1} << 23;
  std::size_t max_depth = 10'000;
};

// Owns the values of a pickle. Memory and time are linear in its bytes, which must outlive it.
class Pickle {
 public:
  // One complete pickle of protocol 2 to 5. Throws FormatError.
  static Pickle parse(std::span<const std::byte> bytes, const PickleOptions& options);

  const PickleValue& root() const { return root_; }

 private:
  friend class Unpickler;
  // Deques, for stable addresses.
  std::deque<PickleSequence> sequences_;
  std::deque<PickleDict> dicts_;
  std::deque<PickleCall> calls_;
  std::deque<PicklePersistent> persistents_;
  std::deque<std::string> texts_;  // bytes that the pickle encodes as text
  PickleValue root_;
};

}  // namespace easydel
