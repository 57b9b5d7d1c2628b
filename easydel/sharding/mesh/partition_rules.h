// How parameters are sharded: an ordered list of regular expressions on the parameter's path, each with its spec.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/sharding/mesh/partition_spec.h"

namespace easydel {

struct PartitionRule {
  std::string pattern;  // ECMAScript; matches when it is found anywhere in the path, as Python's re.search does
  PartitionSpec spec;
  friend bool operator==(const PartitionRule&, const PartitionRule&) = default;
};

// Immutable and cheap to copy. Paths are those of the checkpoint: model.layers.0.self_attn.q_proj.weight.
class PartitionRules {
 public:
  PartitionRules() = default;
  // ConfigError names the number and the pattern of a rule that is not a valid regular expression.
  PartitionRules(std::initializer_list<PartitionRule> rules) : PartitionRules(std::vector<PartitionRule>(rules)) {}
  explicit PartitionRules(std::vector<PartitionRule> rules);

  std::optional<std::size_t> find(std::string_view path) const;  // the first rule that matches, counted from 0
  const PartitionSpec& match(std::string_view path) const;       // ConfigError names a path that no rule matches
  const std::vector<PartitionRule>& rules() const;
  std::size_t size() const { return rules().size(); }
  bool empty() const { return rules().empty(); }

  friend bool operator==(const PartitionRules& a, const PartitionRules& b) { return a.rules() == b.rules(); }

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace easydel
