#include "easydel/models/pixtral/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

void list_fields(AxialRope& rope, FieldVisitor& v) {
  v("rope_theta", rope.rope_theta, "Base of the frequencies.");
  v("rope_type", rope.rope_type, "axial: rows and columns.");
}

PixtralVisionConfig::PixtralVisionConfig() {
  hidden_size = 1024;
  intermediate_size = 4096;
  num_hidden_layers = 24;
  num_attention_heads = 16;
  image_size = 1024;
  hidden_act = "gelu";
  norm_eps = 1e-5;
  post_init();
}

void PixtralVisionConfig::fields(FieldVisitor& v) {
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("num_hidden_layers", num_hidden_layers, "Encoder layers.");
  v("num_attention_heads", num_attention_heads, "Heads.");
  v("head_dim", head_dim, "Kept for transformers: hidden_size / num_attention_heads.");
  v("hidden_act", hidden_act, "Activation of the MLP.");
  v("attention_dropout", attention_dropout, "Dropout probability of attention weights.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("image_size", image_size, "Kept for transformers: the longest side of an image.");
  v("patch_size", patch_size, "Height and width of a patch.");
  v("num_channels", num_channels, "Color channels of a pixel.");
  v("rope_parameters", rope_parameters, "Rotary position embeddings.");
}

void PixtralVisionConfig::post_init() {
  if (num_attention_heads > 0) head_dim = hidden_size / num_attention_heads;
}

void PixtralVisionConfig::validate() const {
  VisionEncoderConfig::validate();
  const ConfigCheck check(*this);
  check.one_of("rope_parameters.rope_type", rope_parameters.rope_type, {"axial"});
  check.above_zero("rope_parameters.rope_theta", rope_parameters.rope_theta);
  require<ConfigError>(head_size() % 2 == 0, "[", class_name(),
                       "] hidden_size / num_attention_heads must be even, for rotary positions; got ", head_size(),
                       ".");
}

// The hub's files have rope_theta beside the other keys.
void PixtralVisionConfig::rename_older_keys(Json& given, bool) const {
  if (!given.is_object() || !given.contains("rope_theta")) return;
  const Json* block = given.find("rope_parameters");
  if (!block || block->is_null()) given["rope_parameters"] = Json::object({{"rope_theta", given.at("rope_theta")}});
  given.as_object().erase("rope_theta");
}

PartitionRules PixtralVisionConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  std::vector<PartitionRule> rules = {
      {"feed_forward\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"feed_forward\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"patch_conv\\.weight$", specs.shard_second()}};
  const PartitionRules common = VisionEncoderConfig::get_partition_rules(fully_sharded);
  rules.insert(rules.end(), common.rules().begin(), common.rules().end());
  return PartitionRules(std::move(rules));
}

}  // namespace easydel
