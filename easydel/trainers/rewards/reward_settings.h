// The settings of one reward or tool, each read once: a key that nobody reads is refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class RewardSettings {
 public:
  // A name, or an object with a type.
  explicit RewardSettings(const Json& given, std::string where = "[rewards]");

  const std::string& type() const { return type_; }
  std::string text(const std::string& key, const std::optional<std::string>& otherwise = {});
  Json object(const std::string& key, const Json& otherwise);
  double number(const std::string& key, const std::optional<double>& otherwise = {});
  std::vector<std::string> words(const std::string& key);  // a list of texts, or one that spaces divide
  bool has(const std::string& key) const { return values_.contains(key); }
  // ConfigError when a key was not asked for.
  void finish() const;

 private:
  const Json* take(const std::string& key, bool is_needed);

  std::string where_, type_;
  Json values_ = Json::object();
  std::vector<std::string> known_;
};

}  // namespace easydel
