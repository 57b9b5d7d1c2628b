// PartitionAxis in JSON: only the fields that were given; null is "not split", a string one axis, a list several.
#include <utility>

#include "easydel/infra/fields/field_types.h"
#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {
namespace {

constexpr std::pair<std::string_view, std::string PartitionAxis::*> kMeshAxes[] = {
    {"data_parallel_axis", &PartitionAxis::data_parallel_axis},
    {"fully_sharded_data_parallel_axis", &PartitionAxis::fully_sharded_data_parallel_axis},
    {"tensor_parallel_axis", &PartitionAxis::tensor_parallel_axis},
    {"sequence_parallel_axis", &PartitionAxis::sequence_parallel_axis},
    {"expert_parallel_axis", &PartitionAxis::expert_parallel_axis},
};

constexpr std::pair<std::string_view, std::optional<AxisNames> PartitionAxis::*> kLogicalAxes[] = {
    {"batch_axis", &PartitionAxis::batch_axis},
    {"sequence_axis", &PartitionAxis::sequence_axis},
    {"query_sequence_axis", &PartitionAxis::query_sequence_axis},
    {"head_axis", &PartitionAxis::head_axis},
    {"kv_head_axis", &PartitionAxis::kv_head_axis},
    {"key_sequence_axis", &PartitionAxis::key_sequence_axis},
    {"hidden_state_axis", &PartitionAxis::hidden_state_axis},
    {"mlp_intermediate_axis", &PartitionAxis::mlp_intermediate_axis},
    {"vocab_axis", &PartitionAxis::vocab_axis},
    {"expert_axis", &PartitionAxis::expert_axis},
    {"expert_gate_axis", &PartitionAxis::expert_gate_axis},
    {"attention_dim_axis", &PartitionAxis::attention_dim_axis},
    {"attention_kv_dim_axis", &PartitionAxis::attention_kv_dim_axis},
    {"bias_head_sequence_axis", &PartitionAxis::bias_head_sequence_axis},
    {"bias_key_sequence_axis", &PartitionAxis::bias_key_sequence_axis},
    {"decode_batch_axis", &PartitionAxis::decode_batch_axis},
    {"decode_query_sequence_axis", &PartitionAxis::decode_query_sequence_axis},
    {"decode_head_axis", &PartitionAxis::decode_head_axis},
    {"decode_kv_head_axis", &PartitionAxis::decode_kv_head_axis},
    {"decode_key_sequence_axis", &PartitionAxis::decode_key_sequence_axis},
    {"decode_attention_dim_axis", &PartitionAxis::decode_attention_dim_axis},
    {"decode_attention_kv_dim_axis", &PartitionAxis::decode_attention_kv_dim_axis},
};

AxisNames read_axes(const Json& json, const std::string& where) {
  if (json.is_null()) return {};
  if (json.is_string()) return {json.as_string()};
  AxisNames names;
  if (!json.is_array()) wrong_type(where, "an axis name, a list of them or null", json);
  FieldType<AxisNames>::from_json(json, names, where);
  return names;
}

Json write_axes(const AxisNames& names) {
  if (names.empty()) return {};
  if (names.size() == 1) return names[0];
  return FieldType<AxisNames>::to_json(names);
}

}  // namespace

Json FieldType<PartitionAxis>::to_json(const PartitionAxis& axis) {
  const PartitionAxis defaults;
  Json json = Json::object();
  for (const auto& [key, member] : kMeshAxes) {
    if (axis.*member != defaults.*member) json[key] = axis.*member;
  }
  for (const auto& [key, member] : kLogicalAxes) {
    if (axis.*member) json[key] = write_axes(*(axis.*member));
  }
  return json;
}

void FieldType<PartitionAxis>::from_json(const Json& json, PartitionAxis& axis, const std::string& where) {
  axis = {};
  if (json.is_null()) return;
  if (!json.is_object()) wrong_type(where, name(), json);
  for (const auto& [key, value] : json.as_object()) {
    const std::string at = where + "." + key;
    bool known = false;
    for (const auto& [name, member] : kMeshAxes) {
      if (name != key) continue;
      FieldType<std::string>::from_json(value, axis.*member, at);
      known = true;
    }
    for (const auto& [name, member] : kLogicalAxes) {
      if (name != key) continue;
      axis.*member = read_axes(value, at);
      known = true;
    }
    require<ConfigError>(known, at, " is not a field of PartitionAxis.");
  }
}

}  // namespace easydel
