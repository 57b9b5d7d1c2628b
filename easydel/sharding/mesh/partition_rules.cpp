#include "easydel/sharding/mesh/partition_rules.h"

#include <locale>
#include <regex>

#include "easydel/core/error.h"

namespace easydel {

struct PartitionRules::Compiled {
  std::vector<PartitionRule> rules;
  std::vector<std::regex> patterns;
};

PartitionRules::PartitionRules(std::vector<PartitionRule> rules) {
  // libstdc++ fills a facet's tables on first use, without a lock (GCC bug 77704); std::regex reads them.
  static const bool filled = [] {
    const std::locale locale;
    const auto& characters = std::use_facet<std::ctype<char>>(locale);
    const char letter = 'a';
    char narrowed = 0;
    characters.narrow(&letter, &letter + 1, 0, &narrowed);  // of a range: fills the whole table
    return characters.widen(letter) == narrowed;
  }();
  static_cast<void>(filled);
  auto compiled = std::make_shared<Compiled>();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    try {
      compiled->patterns.emplace_back(rules[i].pattern, std::regex::ECMAScript | std::regex::nosubs);
    } catch (const std::regex_error& error) {
      fail<ConfigError>("[PartitionRules] rule ", i + 1, " must be a regular expression; got \"", rules[i].pattern,
                        "\" (", error.what(), ").");
    }
  }
  compiled->rules = std::move(rules);
  compiled_ = std::move(compiled);
}

std::optional<std::size_t> PartitionRules::find(std::string_view path) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (std::regex_search(path.begin(), path.end(), compiled_->patterns[i])) return i;
  }
  return std::nullopt;
}

const PartitionSpec& PartitionRules::match(std::string_view path) const {
  const auto rule = find(path);
  require<ConfigError>(rule.has_value(), "[PartitionRules] every parameter must match a rule; none of ", size(),
                       " matches \"", path, "\". Add a last rule \".*\" with P() to replicate the rest.");
  return rules()[*rule].spec;
}

const std::vector<PartitionRule>& PartitionRules::rules() const {
  static const std::vector<PartitionRule> none;
  return compiled_ ? compiled_->rules : none;
}

}  // namespace easydel
