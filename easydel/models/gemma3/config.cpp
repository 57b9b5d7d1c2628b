#include "easydel/models/gemma3/config.h"

#include <cmath>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/decoder/image_text_config.h"
#include "easydel/infra/parallel/weight_specs.h"
#include "easydel/models/siglip/config.h"

namespace easydel {

Gemma3TextConfig::Gemma3TextConfig() {
  vocab_size = 262208;
  max_position_embeddings = 131072;
  use_bidirectional_attention = false;
}

void Gemma3TextConfig::fields(FieldVisitor& v) {
  gemma_fields(v);
  v("rope_parameters", rope_by_type, "Rotary position embeddings of each kind of layer.");
}

void Gemma3TextConfig::post_init() {
  rope = rope_by_type.full_attention;
  DecoderConfig::post_init();
  fill_original_length(rope_by_type.full_attention, max_position_embeddings);
  fill_original_length(rope_by_type.sliding_attention, max_position_embeddings);
  alternate_layers(6);
}

void Gemma3TextConfig::validate() const {
  check_rope(rope_by_type.full_attention, "[Gemma3TextConfig] ", head_size(), "rope_parameters.full_attention");
  check_rope(rope_by_type.sliding_attention, "[Gemma3TextConfig] ", head_size(), "rope_parameters.sliding_attention");
  CappedGemmaConfig::validate();
}

void list_fields(RopeByLayerType& rope, FieldVisitor& v) {
  v("full_attention", rope.full_attention, "For layers with full attention.");
  v("sliding_attention", rope.sliding_attention, "For layers with a sliding window.");
}

// Older files have a period in place of layer_types.
void Gemma3TextConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!is_whole || !given.is_object()) return;
  read_window_pattern(given);
  split_rope_by_layer_type(given, 1e6, 1e4);
}

void split_rope_by_layer_type(Json& given, double full_theta, double sliding_theta) {
  if (!given.is_object()) return;
  const auto has = [](const Json& object, const char* key) { return object.find(key) && !object.at(key).is_null(); };
  const Json* block = given.find("rope_parameters");
  if (block && !block->is_null() && !block->is_object()) return;  // reading it says what is wrong
  if (!has(given, "rope_parameters") && !has(given, "rope_scaling") && !given.contains("rope_theta") &&
      !given.contains("rope_local_base_freq"))
    return;
  Json rope = has(given, "rope_parameters") ? *block : Json::object();
  const auto fill = [&](const char* type, const char* theta_key, double theta) {
    if (!has(rope, type)) rope[type] = Json::object({{"rope_type", "default"}});
    Json& own = rope[type];
    if (!own.is_object() || own.contains("rope_theta")) return;
    own["rope_theta"] = has(given, theta_key) ? given.at(theta_key) : Json(theta);
  };
  if (has(given, "rope_scaling") && given.at("rope_scaling").is_object()) {
    Json full = has(rope, "full_attention") ? rope.at("full_attention") : Json::object({{"rope_type", "default"}});
    for (const auto& [key, value] : given.at("rope_scaling").as_object())
      full[key == "type" ? "rope_type" : key] = value;
    rope["full_attention"] = std::move(full);
  }
  fill("full_attention", "rope_theta", full_theta);
  fill("sliding_attention", "rope_local_base_freq", sliding_theta);
  for (const char* key : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) given.as_object().erase(key);
  given["rope_parameters"] = std::move(rope);
}

Gemma3Config::Gemma3Config() : text_config(Gemma3TextConfig()), vision_config(SiglipVisionConfig()) {
  tie_word_embeddings = true;
  post_init();
}

void Gemma3Config::fields(FieldVisitor& v) {
  v("text_config", text_config, "The decoder.");
  v("vision_config", vision_config, "The vision tower.");
  v("mm_tokens_per_image", mm_tokens_per_image, "Tokens that an image takes.");
  v("boi_token_index", boi_token_index, "Kept for transformers: the token before an image.", {"boi_token_id"});
  v("eoi_token_index", eoi_token_index, "Kept for transformers: the token after an image.", {"eoi_token_id"});
  v("image_token_index", image_token_index, "Placeholder token for image features.", {"image_token_id"});
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void Gemma3Config::post_init() { take_from_decoder(*this, text_config); }

int64_t Gemma3Config::patches_per_side() const {
  const auto& tower = vision_config.as<SiglipVisionConfig>();
  return tower.image_size / tower.patch_size;
}

int64_t Gemma3Config::pooled_patches() const {
  return patches_per_side() / static_cast<int64_t>(std::sqrt(static_cast<double>(mm_tokens_per_image)));
}

void Gemma3Config::validate() const {
  BaseConfig::validate();
  text_config.as<Gemma3TextConfig>().validate();
  vision_config.as<SiglipVisionConfig>().validate();
  const ConfigCheck check(*this);
  check.at_least("image_token_index", image_token_index, 0);
  check.at_least("mm_tokens_per_image", mm_tokens_per_image, 1);
}

PartitionRules Gemma3Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return image_rules(*this, {{"vision_tower.", &vision_config}, {"language_model.", &text_config}},
                     {{"mm_input_projection_weight$", specs.shard_second()}}, fully_sharded);
}

}  // namespace easydel
