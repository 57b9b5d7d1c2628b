// What a YAML file is made of, before aliases are copied out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

struct YamlNode {
  enum class Kind : uint8_t { Scalar, Sequence, Mapping };
  Kind kind = Kind::Scalar;
  int line = 0;  // from 1
  Json scalar;
  std::string text;               // of a scalar, as it stands there
  bool merges = false;            // a plain "<<"
  bool open = false;              // its end has not been read yet
  std::vector<std::string> keys;  // of a mapping
  std::vector<int> key_lines;
  std::vector<std::shared_ptr<YamlNode>> children;
};

// What no config is, and what would cost more than it is worth to read.
struct YamlLimits {
  std::size_t bytes = 4 << 20;
  int depth = 64;
  std::size_t values = 200'000;       // aliases written out
  std::size_t text_bytes = 16 << 20;  // of all texts, aliases written out
};

// Null for an empty text. FormatError, or NotSupportedError in a build without yaml-cpp.
std::shared_ptr<YamlNode> read_yaml_nodes(const std::string& text, const std::string& name, const YamlLimits& limits);

}  // namespace easydel
