// Metadata to be written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/io/gguf/gguf.h"

namespace easydel {

class GgufMetadata {
 public:
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<float>& values);
  void add(std::string_view key, const std::vector<int32_t>& values);

  const std::string& bytes() const { return bytes_; }  // as in the file
  uint64_t count() const { return count_; }

 private:
  void key(std::string_view name, GgufValueType type);

  std::string bytes_;
  uint64_t count_ = 0;
};

}  // namespace easydel
