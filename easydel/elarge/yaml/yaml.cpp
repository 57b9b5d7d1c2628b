#include "easydel/elarge/yaml/yaml.h"

#include <algorithm>
#include <charconv>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/utf8.h"
#include "easydel/elarge/yaml/yaml_node.h"

namespace easydel {
namespace {

// PyYAML refuses these, too.
void require_printable(std::string_view text, const std::string& name) {
  int line = 1;
  for (const char c : text) {
    if (c == '\n') ++line;
    const auto byte = static_cast<unsigned char>(c);
    require<FormatError>((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t' || c == '\r', "[yaml] ", name, ":",
                         line, ": control characters are not allowed in YAML; got the byte ", static_cast<int>(byte),
                         ".");
  }
}

// Writes aliases out, as long as that stays small.
class Writer {
 public:
  Writer(const std::string& name, const YamlLimits& limits) : name_(name), limits_(limits) {}

  Json write(const YamlNode& node) {
    count(node.text.size());
    if (node.kind == YamlNode::Kind::Scalar) return node.scalar;
    if (node.kind == YamlNode::Kind::Sequence) {
      Json::Array list;
      for (const auto& child : node.children) list.push_back(write(*child));
      return list;
    }
    Json object = Json::object();
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      count(node.keys[i].size());
      object[node.keys[i]] = write(*node.children[i]);
    }
    return object;
  }

 private:
  void count(std::size_t bytes) {
    text_ += bytes;
    require<FormatError>(++values_ <= limits_.values && text_ <= limits_.text_bytes, "[yaml] ", name_,
                         ": with its aliases expanded it must not contain more than ", limits_.values, " values or ",
                         limits_.text_bytes, " bytes of text.");
  }

  const std::string& name_;
  const YamlLimits& limits_;
  std::size_t values_ = 0, text_ = 0;
};

}  // namespace

YamlDocument YamlDocument::parse(std::string_view text, const std::string& name) {
  const YamlLimits limits;
  require<FormatError>(text.size() <= limits.bytes, "[yaml] ", name, " must not be larger than ", limits.bytes,
                       " bytes; got ", text.size(), ".");
  const std::size_t bad = invalid_utf8(text);
  require<FormatError>(bad == std::string_view::npos, "[yaml] ", name, " must be UTF-8; byte ", bad, " is not.");
  require_printable(text, name);
  YamlDocument document;
  document.root_ = read_yaml_nodes(std::string(text), name, limits);
  if (document.root_) document.value_ = Writer(name, limits).write(*document.root_);
  return document;
}

YamlDocument YamlDocument::parse_file(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

int YamlDocument::line(const YamlPath& path) const {
  const YamlNode* node = root_.get();
  int line = node ? node->line : 0;
  for (const std::string& step : path) {
    if (!node) return 0;
    std::size_t index = node->children.size();
    if (node->kind == YamlNode::Kind::Mapping) {
      index = static_cast<std::size_t>(std::find(node->keys.begin(), node->keys.end(), step) - node->keys.begin());
      if (index < node->children.size()) line = node->key_lines[index];
    } else {
      std::from_chars(step.data(), step.data() + step.size(), index);
      if (index < node->children.size()) line = node->children[index]->line;
    }
    if (index >= node->children.size()) return 0;
    node = node->children[index].get();
  }
  return line;
}

}  // namespace easydel
