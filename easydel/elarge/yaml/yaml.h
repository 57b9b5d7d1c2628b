// YAML as Python's yaml.safe_load reads it, with the line of every key; and back.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

// Where a value stands: keys of mappings, numbers of elements ("0", "1", …).
using YamlPath = std::vector<std::string>;

struct YamlNode;

// One document. A key is the text that stands in the file. FormatError names file and line: on invalid YAML, a key
// that occurs twice, a tag that is not YAML's own, a second document, aliases that multiply or hold themselves, and
// anything too large or deep for a config.
class YamlDocument {
 public:
  // NotSupportedError in a build without yaml-cpp.
  static YamlDocument parse(std::string_view text, const std::string& name = "YAML");
  static YamlDocument parse_file(const std::filesystem::path& path);

  const Json& value() const { return value_; }
  // Of the key, or of the value where it is an element or the whole; 0 when there is no such place. A key that came
  // with a merge ("<<") has the line where it is written.
  int line(const YamlPath& path) const;

 private:
  Json value_;
  std::shared_ptr<const YamlNode> root_;
};

// A plain scalar by the rules of YAML 1.1, as PyYAML has them: yes is true, 0x10 is 16, 1:30 is 90, 1e-5 is a text.
// Dates stay texts.
Json resolve_yaml_scalar(std::string_view text);

// As block mappings, in the order of the keys; lists of scalars on one line where they fit. What safe_load reads back
// is the same value.
std::string to_yaml(const Json& value);

}  // namespace easydel
