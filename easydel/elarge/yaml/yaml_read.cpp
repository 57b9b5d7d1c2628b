// The events of yaml-cpp's parser become nodes.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/elarge/yaml/yaml.h"
#include "easydel/elarge/yaml/yaml_node.h"

namespace easydel {
namespace {

using Kind = YamlNode::Kind;
constexpr std::string_view kTags = "tag:yaml.org,2002:";

// yaml-cpp writes the escapes \\N and \\_ as the bytes 85 and a0, where UTF-8 has c2 before them.
std::string repaired(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t bad = invalid_utf8(text);
    out += text.substr(0, bad);
    if (bad == std::string_view::npos) return out;
    out += '\xc2';
    out += text[bad];
    text.remove_prefix(bad + 1);
  }
}

// Where each line of a text begins.
std::vector<std::size_t> find_lines(std::string_view text) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') begins.push_back(i + 1);
  }
  return begins;
}

class Builder final : public YAML::EventHandler {
 public:
  Builder(const std::string& source, const std::string& name, const YamlLimits& limits)
      : source_(source), name_(name), limits_(limits) {}

  std::shared_ptr<YamlNode> root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(make(Kind::Scalar, mark, anchor)); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& written) override {
    const std::string value = tag == "!" && written.empty() ? blank_lines(mark) : repaired(written);
    auto node = make(Kind::Scalar, mark, anchor);
    node->text = value;
    node->merges = tag == "?" && value == "<<";
    node->scalar = scalar(tag, value, node->line);
    add(node);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    require<FormatError>(found != anchors_.end() && !found->second->open, at(mark.line + 1),
                         "an alias must not occur inside its own anchor.");
    add(found->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(Kind::Sequence, "seq", mark, tag, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(Kind::Mapping, "map", mark, tag, anchor);
  }
  void OnMapEnd() override { end(); }

  std::string at(int line) const { return concat("[yaml] ", name_, ":", line, ": "); }

 private:
  std::shared_ptr<YamlNode> make(Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->line = mark.line + 1;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    return node;
  }

  // yaml-cpp takes quotes around blank lines alone for an empty text; they mean the line breaks but for one.
  std::string blank_lines(const YAML::Mark& mark) {
    if (lines_.empty()) lines_ = find_lines(source_);
    if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= lines_.size()) return "";
    const std::string_view source = source_;
    const std::size_t from = lines_[static_cast<std::size_t>(mark.line)] + static_cast<std::size_t>(mark.column);
    const std::size_t open = source.find_first_of("'\"", from);
    if (open == std::string_view::npos) return "";
    const std::string_view inside = source.substr(open + 1, source.find(source[open], open + 1) - open - 1);
    const auto breaks = std::count(inside.begin(), inside.end(), '\n');
    if (breaks == 0 || inside.find_first_not_of(" \t\r\n") != std::string_view::npos) return "";
    return std::string(static_cast<std::size_t>(breaks - 1), '\n');
  }

  Json scalar(const std::string& tag, const std::string& value, int line) const {
    if (tag == "!" || tag == concat(kTags, "str")) return value;
    const Json resolved = resolve_yaml_scalar(value);
    if (tag == "?" || tag.empty()) return resolved;
    if (tag == concat(kTags, "null") && resolved.is_null()) return resolved;
    if (tag == concat(kTags, "bool") && resolved.is_bool()) return resolved;
    if (tag == concat(kTags, "int") && resolved.is_int()) return resolved;
    if (tag == concat(kTags, "float") && resolved.is_number()) return resolved.as_double();
    fail<FormatError>(at(line), "the tag ", tag, " is not supported; got \"", value, "\".");
  }

  void start(Kind kind, std::string_view name, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    auto node = make(kind, mark, anchor);
    require<FormatError>(tag.empty() || tag == "?" || tag == "!" || tag == concat(kTags, name), at(node->line),
                         "the tag ", tag, " is not supported.");
    require<FormatError>(static_cast<int>(stack_.size()) < limits_.depth, at(node->line),
                         "values must not be nested deeper than ", limits_.depth, ".");
    require<FormatError>(stack_.empty() || !expects_key(), at(node->line), "a key must be a single value.");
    node->open = true;
    stack_.push_back(node);
  }

  void end() {
    const auto node = stack_.back();
    stack_.pop_back();
    if (node->kind == Kind::Mapping) merge(*node);
    node->open = false;
    add(node);
  }

  bool expects_key() const {
    const YamlNode& parent = *stack_.back();
    return parent.kind == Kind::Mapping && parent.keys.size() == parent.children.size();
  }

  void add(const std::shared_ptr<YamlNode>& node) {
    if (stack_.empty()) {
      root = node;
      return;
    }
    YamlNode& parent = *stack_.back();
    if (!expects_key()) {
      parent.children.push_back(node);
      return;
    }
    require<FormatError>(node->kind == Kind::Scalar, at(node->line), "a key must be a single value.");
    const auto earlier = std::find(parent.keys.begin(), parent.keys.end(), node->text);
    if (earlier != parent.keys.end()) {
      fail<FormatError>(at(node->line), "the key \"", node->text, "\" is here and in line ",
                        parent.key_lines[static_cast<std::size_t>(earlier - parent.keys.begin())],
                        ". Remove one of them.");
    }
    require<FormatError>(parent.keys.size() < kMaxKeys, at(node->line), "a mapping must not have more than ", kMaxKeys,
                         " keys.");
    parent.keys.push_back(node->text);
    parent.key_lines.push_back(node->line);
    if (node->merges) parent.merges = true;
  }

  // "<<": what the merged mappings have and this one has not, earlier ones first.
  void merge(YamlNode& node) {
    if (!node.merges) return;
    node.merges = false;
    const auto position = std::find(node.keys.begin(), node.keys.end(), "<<") - node.keys.begin();
    const std::shared_ptr<YamlNode> from = node.children[static_cast<std::size_t>(position)];
    const int line = node.key_lines[static_cast<std::size_t>(position)];
    node.keys.erase(node.keys.begin() + position);
    node.key_lines.erase(node.key_lines.begin() + position);
    node.children.erase(node.children.begin() + position);
    const auto take = [&](const YamlNode& other) {
      require<FormatError>(other.kind == Kind::Mapping, at(line), "<< must merge a mapping or a list of mappings.");
      for (std::size_t i = 0; i < other.keys.size(); ++i) {
        require<FormatError>(++merged_ <= kMaxMerged, at(line), "merges must not copy more than ", kMaxMerged,
                             " keys.");
        if (std::find(node.keys.begin(), node.keys.end(), other.keys[i]) != node.keys.end()) continue;
        node.keys.push_back(other.keys[i]);
        node.key_lines.push_back(other.key_lines[i]);
        node.children.push_back(other.children[i]);
      }
    };
    if (from->kind != Kind::Sequence) return take(*from);
    for (const auto& other : from->children) take(*other);
  }

  // Keys are looked for one by one: no config has many.
  static constexpr std::size_t kMaxKeys = 2000, kMaxMerged = 20'000;

  const std::string& source_;
  std::vector<std::size_t> lines_;
  const std::string& name_;
  const YamlLimits& limits_;
  std::map<YAML::anchor_t, std::shared_ptr<YamlNode>> anchors_;
  std::vector<std::shared_ptr<YamlNode>> stack_;
  std::size_t merged_ = 0;
};

}  // namespace

std::shared_ptr<YamlNode> read_yaml_nodes(const std::string& text, const std::string& name, const YamlLimits& limits) {
  Builder builder(text, name, limits);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return nullptr;
    Builder second(text, name, limits);
    if (parser.HandleNextDocument(second) && second.root) {
      fail<FormatError>(second.at(second.root->line), "a second document begins here; only one is allowed.");
    }
  } catch (const YAML::Exception& error) {
    fail<FormatError>(builder.at(error.mark.line + 1), error.msg, " (column ", error.mark.column + 1, ").");
  }
  return builder.root;
}

}  // namespace easydel
