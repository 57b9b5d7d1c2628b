#include "easydel/models/gemma3/config.h"

#include "easydel/infra/config_check.h"

namespace easydel {

Gemma3TextConfig::Gemma3TextConfig() {
  hidden_act_key_ = "hidden_activation";
  vocab_size = 262208;
  hidden_size = 2304;
  intermediate_size = 9216;
  num_hidden_layers = 26;
  num_attention_heads = 8;
  num_key_value_heads = 4;
  head_dim = 256;
  hidden_act = "gelu_pytorch_tanh";
  max_position_embeddings = 131072;
  pad_token_id = 0;
  eos_token_id = 1;
  bos_token_id = 2;
  tie_word_embeddings = true;
  sliding_window = 4096;
}

void Gemma3TextConfig::fields(FieldVisitor& v) {
  common_fields(v);
  v("rope_parameters", rope_by_type, "Rotary position embeddings of each kind of layer.");
  head_dim_field(v);
  bias_field(v);
  v("query_pre_attn_scalar", query_pre_attn_scalar, "Scores are divided by its root.");
  window_fields(v);
  v("final_logit_softcapping", final_logit_softcapping, "Soft cap of the logits; null: none.");
  v("attn_logit_softcapping", attn_logit_softcapping, "Kept for transformers.");
  v("use_bidirectional_attention", use_bidirectional_attention, "Not supported: let tokens see those behind them.");
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
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.multiple("hidden_size", hidden_size, "num_attention_heads", num_attention_heads);  // transformers insists
  check.at_least("query_pre_attn_scalar", query_pre_attn_scalar, 1);
  if (final_logit_softcapping) check.above_zero("final_logit_softcapping", *final_logit_softcapping);
  if (attn_logit_softcapping) check.above_zero("attn_logit_softcapping", *attn_logit_softcapping);
  check.causal("use_bidirectional_attention", use_bidirectional_attention);
}

void list_fields(RopeByLayerType& rope, FieldVisitor& v) {
  v("full_attention", rope.full_attention, "Of layers that see everything.");
  v("sliding_attention", rope.sliding_attention, "Of layers with a window.");
}

// Older files have rope_theta, rope_scaling and rope_local_base_freq, and a period in place of layer_types.
void Gemma3TextConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!is_whole || !given.is_object()) return;
  read_window_pattern(given);
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
  fill("full_attention", "rope_theta", 1e6);
  fill("sliding_attention", "rope_local_base_freq", 1e4);
  for (const char* key : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) given.as_object().erase(key);
  given["rope_parameters"] = std::move(rope);
}

}  // namespace easydel
