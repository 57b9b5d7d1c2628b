// Pickles written opcode by opcode, as torch.save would write them or corrupted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace easydel::pickled {

using Items = std::vector<std::string>;

inline std::string joined(const Items& items) {
  std::string text;
  for (const std::string& item : items) text += item;
  return text;
}
inline std::string number(int64_t value) {
  return std::string("\x8a\x08") + std::string(reinterpret_cast<const char*>(&value), 8);
}
inline std::string text(const std::string& value) {
  const auto size = static_cast<uint32_t>(value.size());
  return "X" + std::string(reinterpret_cast<const char*>(&size), 4) + value;
}
inline std::string tuple(const Items& items) { return "(" + joined(items) + "t"; }
inline std::string numbers(const std::vector<int64_t>& values) {
  Items items;
  for (const int64_t value : values) items.push_back(number(value));
  return tuple(items);
}
inline std::string dict(const Items& keys_and_values) { return "}(" + joined(keys_and_values) + "u"; }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string call(const std::string& callee, const Items& arguments) { return callee + tuple(arguments) + "R"; }
inline std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }

struct Tensor {
  std::string type = "FloatStorage";
  std::string key = "0";
  int64_t count = 6;
  int64_t offset = 0;
  std::vector<int64_t> size = {2, 3};
  std::vector<int64_t> stride = {3, 1};
  std::string metadata;
};

inline std::string storage(const Tensor& tensor) {
  return tuple({text("storage"), global("torch", tensor.type), text(tensor.key), text("cpu"), number(tensor.count)}) +
         "Q";
}

inline Items arguments(const Tensor& tensor) {
  Items items = {storage(tensor),
                 number(tensor.offset),
                 numbers(tensor.size),
                 numbers(tensor.stride),
                 "\x89",
                 call(global("collections", "OrderedDict"), {})};
  if (!tensor.metadata.empty()) items.push_back(tensor.metadata);
  return items;
}

inline std::string rebuild(const Tensor& tensor) {
  return call(global("torch._utils", "_rebuild_tensor_v2"), arguments(tensor));
}

}  // namespace easydel::pickled
