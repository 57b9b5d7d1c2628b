#include "easydel/elarge/config/elarge_config.h"

#include <algorithm>
#include <charconv>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

void merge(Json& base, const Json& changes) {
  if (!base.is_object() || !changes.is_object()) {
    base = changes;
    return;
  }
  for (const auto& [key, value] : changes.as_object()) merge(base[key], value);
}

// The element of that number; one past the end is a new one.
Json& element(Json& list, const std::string& number, const std::string& where) {
  std::size_t index = 0;
  const auto result = std::from_chars(number.data(), number.data() + number.size(), index);
  require<ConfigError>(result.ec == std::errc() && result.ptr == number.data() + number.size() && index <= list.size(),
                       where, " must name an element from 0 to ", list.size(), "; got \"", number, "\".");
  if (index == list.size()) list.push_back({});
  return list.as_array()[index];
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Where a key stands in a message, as a word or at the end of a longer key: axis_dims in sharding_axis_dims.
std::size_t find_word(const std::string& message, const std::string& key) {
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  for (std::size_t at = message.find(key); at != std::string::npos; at = message.find(key, at + 1)) {
    const char before = at > 0 ? message[at - 1] : ' ', after = message[std::min(at + key.size(), message.size() - 1)];
    if (!is_letter(before) && (at + key.size() == message.size() || (!is_letter(after) && after != '_'))) return at;
  }
  return std::string::npos;
}

// "mixture.informs[0].split" and "mixture.informs.0.split".
YamlPath split_path(const std::string& text) {
  YamlPath path(1);
  for (const char c : text) {
    if (c == '.' || c == '[') {
      path.emplace_back();
    } else if (c != ']') {
      path.back() += c;
    }
  }
  for (const std::string& step : path) {
    require<UsageError>(!step.empty(), "[elarge] --set must name a key, as in trainer.learning_rate=1e-5; got \"", text,
                        "\".");
  }
  return path;
}

}  // namespace

YamlPath below(YamlPath path, std::string_view key) {
  path.emplace_back(key);
  return path;
}

std::string dotted(const YamlPath& path) {
  std::string text;
  for (const std::string& step : path) {
    if (is_number(step)) {
      text += "[" + step + "]";
    } else {
      text += (text.empty() ? "" : ".") + step;
    }
  }
  return text;
}

ELargeConfig::ELargeConfig(Json config) : json_(std::move(config)) { unwrap(); }

ELargeConfig ELargeConfig::from_yaml_text(std::string_view text, const std::string& name) {
  ELargeConfig config;
  config.name_ = name;
  config.document_ = YamlDocument::parse(text, name);
  config.json_ = config.document_->value();
  config.unwrap();
  return config;
}

ELargeConfig ELargeConfig::from_yaml(const std::filesystem::path& path) {
  return from_yaml_text(read_file(path), path.string());
}

ELargeConfig ELargeConfig::from_json(const std::filesystem::path& path) {
  ELargeConfig config;
  config.name_ = path.string();
  config.json_ = Json::parse(read_file(path), {.where = path.string(), .reject_duplicate_keys = true});
  config.unwrap();
  return config;
}

ELargeConfig ELargeConfig::from_file(const std::filesystem::path& path) {
  return path.extension() == ".json" ? from_json(path) : from_yaml(path);
}

// The sections may stand below config:, elarge_model: or elm:.
void ELargeConfig::unwrap() {
  if (json_.is_null()) json_ = Json::object();
  require<ConfigError>(json_.is_object(), "[elarge] ", name_, name_.empty() ? "a config" : "",
                       " must be a mapping of sections; got ", json_.type_name(), ".");
  for (const char* wrapper : {"config", "elarge_model", "elm"}) {
    const Json* inner = json_.find(wrapper);
    if (!inner) continue;
    for (const auto& [key, value] : json_.as_object()) {
      require<ConfigError>(key == wrapper || key == "actions", where({key}), " must be inside ", wrapper,
                           ", like the other sections.");
    }
    require<ConfigError>(inner->is_object() || inner->is_null(), where({wrapper}),
                         " must be a mapping of sections; got ", inner->type_name(), ".");
    Json sections = inner->is_null() ? Json::object() : *inner;
    if (const Json* actions = json_.find("actions")) sections["actions"] = *actions;
    json_ = std::move(sections);
    prefix_ = {wrapper};
    return;
  }
}

std::string ELargeConfig::where(const YamlPath& path) const {
  YamlPath part;
  for (const std::string& step : path) {
    part.push_back(step);
    if (changed_.contains(dotted(part))) return concat("[elarge] --set: ", dotted(path));
  }
  if (name_.empty()) return concat("[elarge] ", dotted(path));
  YamlPath full = path;
  if (!path.empty() && path[0] != "actions") full.insert(full.begin(), prefix_.begin(), prefix_.end());
  int line = 0;
  for (; document_ && line == 0; full.pop_back()) {  // of a key that is missing: that of its section
    line = document_->line(full);
    if (full.empty()) break;
  }
  return line > 0 ? concat("[elarge] ", name_, ":", line, ": ", dotted(path))
                  : concat("[elarge] ", name_, ": ", dotted(path));
}

void ELargeConfig::located(const std::vector<YamlPath>& sections, const YamlPath& otherwise,
                           const std::function<void()>& work) const {
  const auto place = [&](const std::string& message) -> std::string {
    if (message.starts_with("[elarge] ")) return "";  // it has its place
    for (const YamlPath& section : sections) {
      const Json* given = find(section);
      if (!given || !given->is_object()) continue;
      std::size_t first = std::string::npos;
      std::string named;
      for (const auto& [key, value] : given->as_object()) {
        const std::size_t at = find_word(message, key);
        if (at > first || (at == first && key.size() <= named.size())) continue;
        first = at;
        named = key;
      }
      if (first != std::string::npos) return where(below(section, named)) + ": ";
    }
    return otherwise.empty() ? "" : where(otherwise) + ": ";
  };
  try {
    work();
  } catch (const NotSupportedError& error) {
    throw NotSupportedError(place(error.what()) + error.what());
  } catch (const IoError& error) {
    throw IoError(place(error.what()) + error.what());
  } catch (const FormatError& error) {
    throw FormatError(place(error.what()) + error.what());
  } catch (const ConfigError& error) {
    throw ConfigError(place(error.what()) + error.what());
  }
}

void ELargeConfig::set(const std::string& assignment) {
  const Json parsed = parse_overrides({assignment});
  const auto& [key, value] = *parsed.as_object().begin();
  const YamlPath path = split_path(key);
  set(path, value);
  changed_.insert(dotted(path));
}

void ELargeConfig::set(const YamlPath& path, Json value) {
  Json* at = &json_;
  YamlPath done;
  for (const std::string& step : path) {
    if (at->is_array()) {
      at = &element(*at, step, where(done));
    } else {
      require<ConfigError>(at->is_object() || at->is_null(), where(done), " must be a mapping to contain \"", step,
                           "\"; got ", at->dump(), ".");
      at = &(*at)[step];
    }
    done.push_back(step);
  }
  *at = std::move(value);
}

void ELargeConfig::update(const Json& changes) { merge(json_, changes); }

const Json* ELargeConfig::find(const YamlPath& path) const {
  const Json* at = &json_;
  for (const std::string& step : path) {
    if (at->is_array()) {
      std::size_t index = at->size();
      std::from_chars(step.data(), step.data() + step.size(), index);
      if (index >= at->size()) return nullptr;
      at = &at->at(index);
    } else {
      at = at->find(step);
      if (!at) return nullptr;
    }
  }
  return at->is_null() ? nullptr : at;
}

bool ELargeConfig::has(std::string_view section) const { return find({std::string(section)}) != nullptr; }

std::string ELargeConfig::to_json() const { return json_.dump(2) + "\n"; }
std::string ELargeConfig::to_yaml() const { return easydel::to_yaml(json_); }
std::string ELargeConfig::dump() const { return easydel::to_yaml(normalized()); }

}  // namespace easydel
