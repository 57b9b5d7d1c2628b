#include "easydel/infra/config/sub_config.h"

#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/config_io.h"
#include "easydel/infra/registry.h"

namespace easydel {

std::unique_ptr<BaseConfig> SubConfig::under(const BaseConfig& parent) const {
  auto copy = config_->clone();
  copy->sharding = parent.sharding;
  copy->attention = parent.attention;
  copy->memory = parent.memory;
  copy->moe = parent.moe;
  copy->set_model_mesh(parent.model_mesh());
  return copy;
}

std::vector<PartitionRule> SubConfig::rules_under(const std::string& prefix, bool fully_sharded,
                                                  const BaseConfig& parent) const {
  std::string literal;
  for (const char c : prefix) literal += c == '.' ? std::string("\\.") : std::string(1, c);
  std::vector<PartitionRule> rules = under(parent)->get_partition_rules(fully_sharded).rules();
  // A pattern is found anywhere behind the prefix.
  for (PartitionRule& rule : rules) rule.pattern = "^" + literal + ".*(?:" + rule.pattern + ")";
  return rules;
}

Json FieldType<SubConfig>::to_json(const SubConfig& value) { return value->to_dict(); }

void FieldType<SubConfig>::from_json(const Json& json, SubConfig& value, const std::string& where) {
  if (json.is_null()) return;  // as if it were absent
  if (!json.is_object()) wrong_type(where, name(), json);
  Json given = json;
  const Json* type = given.find("model_type");
  if (!type || !type->is_string() || type->as_string().empty()) given["model_type"] = value.default_type();
  auto config = Registry::instance().make_config(given.at("model_type").as_string(), where + ": ");
  read_config(*config, given, where);
  value.set(std::move(config));
}

Json with_inner_overrides(const Json& whole, const Json& overrides) {
  Json result = Json::object();
  for (const auto& [key, value] : overrides.as_object()) {
    const std::size_t dot = key.find('.');
    const std::string head = key.substr(0, dot);
    const Json* inner = dot == std::string::npos ? nullptr : whole.find(head);
    if (!inner || !inner->contains("model_type")) {
      result[key] = value;
      continue;
    }
    if (result.contains(head)) inner = &result.at(head);
    auto config = AutoConfig::from_dict(*inner, {}, head);
    config->update(Json::object({{key.substr(dot + 1), value}}));
    result[head] = config->to_dict();
  }
  return result;
}

}  // namespace easydel
