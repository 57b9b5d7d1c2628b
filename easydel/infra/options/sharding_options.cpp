#include "easydel/infra/options/sharding_options.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_fields(ShardingOptions& s, FieldVisitor& v) {
  v("axis_dims", s.axis_dims, "Devices along each axis; one may be -1: all remaining devices.");
  v("axis_names", s.axis_names, "Names of the axes.");
  v("dcn_axis_dims", s.dcn_axis_dims, "Size of each axis over the outer network.");
  v("partition_axis", s.partition_axis, "Which axes split the batch, the sequence, heads, …; null: the config's.");
  v("auto_shard_model", s.auto_shard_model, "Shard the weights.");
  v("zero_stage", s.zero_stage,
    "ZeRO stage: 1 shards the optimizer state over the data axes, 2 also gradients, 3 also parameters; null: by the "
    "partition rules.");
  v("shard_attention_computation", s.shard_attention_computation,
    "Split attention over heads and sequence; null: the config's.");
  v("fsdp_is_ep_bound", s.fsdp_is_ep_bound, "Split experts over fsdp together with ep; null: the config's.");
  v("sp_is_ep_bound", s.sp_is_ep_bound, "Split experts over sp together with ep; null: the config's.");
}

Json config_changes(ShardingOptions options) {
  Json changes = Json::object();
  for (FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(options, v); })) {
    const bool is_given = !field.value.is_null() && !(field.value.is_array() && field.value.size() == 0);
    if (!is_given || field.key == "auto_shard_model") continue;
    const bool is_of_the_mesh = field.key.find("axis_dims") != std::string::npos || field.key == "axis_names";
    changes[is_of_the_mesh ? "sharding_" + field.key : field.key] = std::move(field.value);
  }
  return changes;
}

}  // namespace easydel
