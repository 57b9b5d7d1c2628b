#include "easydel/trainers/rewards/reward_settings.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel {

RewardSettings::RewardSettings(const Json& given, std::string where) : where_(std::move(where)) {
  if (given.is_string()) {
    // "numeric", or "regex=[0-9]+", "command=python3 check.py": the one setting that the type cannot do without.
    const std::string& text = given.as_string();
    const std::size_t equals = text.find('=');
    type_ = text.substr(0, equals);
    if (equals == std::string::npos) return;
    static const std::vector<std::pair<std::string, std::string>> main = {
        {"exact", "field"},     {"numeric", "field"}, {"regex", "pattern"}, {"format", "pattern"}, {"length", "target"},
        {"command", "command"}, {"http", "url"},      {"library", "path"},  {"repetition", "n"}};
    const auto found = std::find_if(main.begin(), main.end(), [&](const auto& each) { return each.first == type_; });
    require<ConfigError>(found != main.end(), where_, " \"", type_, "\" takes no value; got \"", text, "\".");
    values_[found->second] = text.substr(equals + 1);
    return;
  }
  require<ConfigError>(given.is_object() && given.contains("type") && given.at("type").is_string(), where_,
                       " a reward is a name, or an object with a type; got ", given.dump(), ".");
  type_ = given.at("type").as_string();
  for (const auto& [key, value] : given.as_object()) {
    if (key != "type") values_[key] = value;
  }
}

const Json* RewardSettings::take(const std::string& key, bool is_needed) {
  known_.push_back(key);
  const Json* value = values_.find(key);
  require<ConfigError>(value || !is_needed, where_, " ", type_, " needs ", key, ".");
  return value;
}

std::string RewardSettings::text(const std::string& key, const std::optional<std::string>& otherwise) {
  const Json* value = take(key, !otherwise);
  if (!value) return *otherwise;
  require<ConfigError>(value->is_string() && !value->as_string().empty(), where_, " ", key, " of ", type_,
                       " must be a string; got ", value->dump(), ".");
  return value->as_string();
}

Json RewardSettings::object(const std::string& key, const Json& otherwise) {
  const Json* value = take(key, false);
  if (!value) return otherwise;
  require<ConfigError>(value->is_object(), where_, " ", key, " of ", type_, " must be an object; got ", value->dump(),
                       ".");
  return *value;
}

double RewardSettings::number(const std::string& key, const std::optional<double>& otherwise) {
  const Json* value = take(key, !otherwise);
  if (!value) return *otherwise;
  Json read = *value;
  if (read.is_string()) {
    try {
      read = Json::parse(read.as_string());
    } catch (const FormatError&) {
      // told below
    }
  }
  require<ConfigError>(read.is_number(), where_, " ", key, " of ", type_, " must be a number; got ", value->dump(),
                       ".");
  return read.as_double();
}

std::vector<std::string> RewardSettings::words(const std::string& key) {
  const Json* value = take(key, true);
  std::vector<std::string> words;
  if (value->is_array()) {
    for (const Json& word : value->as_array()) {
      require<ConfigError>(word.is_string(), where_, " ", key, " of ", type_, " must be a list of strings; got ",
                           value->dump(), ".");
      words.push_back(word.as_string());
    }
  } else if (value->is_string()) {
    std::string word;
    for (const char c : value->as_string() + " ") {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(std::move(word));
        word.clear();
      }
    }
  }
  require<ConfigError>(!words.empty(), where_, " ", key, " of ", type_, " must be a list of strings; got ",
                       value->dump(), ".");
  return words;
}

void RewardSettings::finish() const {
  for (const auto& [key, value] : values_.as_object()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string known;
    for (const std::string& name : known_) known += (known.empty() ? "" : ", ") + name;
    fail<ConfigError>(where_, " ", key, " is not a setting of ", type_, "; known: ", known, ".");
  }
}

}  // namespace easydel
