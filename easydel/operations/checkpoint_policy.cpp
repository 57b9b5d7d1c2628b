#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"

namespace easydel::operations {
namespace {

struct Entry {
  std::string_view name;
  CheckpointRule rule;
  bool takes_names = false;
  std::array<std::string_view, 3> families = {};
};

constexpr std::array kPolicies = {
    Entry{"", CheckpointRule::Everything},
    Entry{"none", CheckpointRule::Everything},
    Entry{"everything_saveable", CheckpointRule::Everything},
    Entry{"nothing_saveable", CheckpointRule::Nothing},
    Entry{"checkpoint_dots", CheckpointRule::AllDots},
    Entry{"checkpoint_dots_with_no_batch_dims", CheckpointRule::AllDots},
    Entry{"dots_saveable", CheckpointRule::AllDots},
    Entry{"dots_with_no_batch_dims_saveable", CheckpointRule::AllDots},
    Entry{"save_anything_except_these_names", CheckpointRule::AllExcept, true},
    Entry{"save_any_names_but_these", CheckpointRule::NamedExcept, true},
    Entry{"save_only_these_names", CheckpointRule::OnlyNames, true},
    Entry{"save_from_both_policies", CheckpointRule::AllDots, true},
    Entry{"mlp_notsaveable", CheckpointRule::NamedExceptFamilies, false, {"mlp_", "moe_"}},
    Entry{"attn_notsaveable", CheckpointRule::NamedExceptFamilies, false, {"attn_"}},
    Entry{"mlp_attn_notsaveable", CheckpointRule::NamedExceptFamilies, false, {"mlp_", "moe_", "attn_"}},
};

}  // namespace

std::vector<std::string> checkpoint_policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

CheckpointPolicy::CheckpointPolicy(const std::string& name, std::vector<std::string> targets)
    : targets_(std::move(targets)) {
  const auto entry = std::find_if(kPolicies.begin(), kPolicies.end(), [&](const Entry& e) { return e.name == name; });
  if (entry == kPolicies.end()) {
    std::string known;
    for (const Entry& e : kPolicies) known += concat(known.empty() ? "" : ", ", '"', e.name, '"');
    const std::string nearest = nearest_name(name, checkpoint_policy_names());
    fail<ConfigError>("[CheckpointPolicy] unknown policy \"", name, "\"; known: ", known, ".",
                      nearest.empty() ? "" : " Did you mean \"" + nearest + "\"?");
  }
  require<ConfigError>(!entry->takes_names || !targets_.empty(), "[CheckpointPolicy] \"", name,
                       "\" needs names; got none. Set gradient_checkpointing_targets.");
  rule_ = entry->rule;
  if (rule_ == CheckpointRule::NamedExceptFamilies) {
    targets_.clear();
    for (const std::string_view family : entry->families) {
      if (!family.empty()) targets_.emplace_back(family);
    }
  }
}

bool CheckpointPolicy::recomputes() const { return rule_ != CheckpointRule::Everything; }

bool CheckpointPolicy::keeps(std::string_view name) const {
  const auto is_target = [&](const std::string& target) { return target == name; };
  const auto is_family = [&](const std::string& target) { return name.starts_with(target); };
  switch (rule_) {
    case CheckpointRule::Everything:
    case CheckpointRule::AllDots: return true;
    case CheckpointRule::Nothing: return false;
    case CheckpointRule::OnlyNames: return std::any_of(targets_.begin(), targets_.end(), is_target);
    case CheckpointRule::NamedExcept: return !name.empty() && std::none_of(targets_.begin(), targets_.end(), is_target);
    case CheckpointRule::AllExcept: return std::none_of(targets_.begin(), targets_.end(), is_target);
    case CheckpointRule::NamedExceptFamilies:
      return !name.empty() && std::none_of(targets_.begin(), targets_.end(), is_family);
  }
  return false;
}

}  // namespace easydel::operations
