#include "easydel/models/qwen2_moe/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Qwen2MoeConfig::Qwen2MoeConfig() {
  experts_key_ = "num_experts";
  experts_alias_ = "num_local_experts";
  vocab_size = 151936;
  hidden_size = 2048;
  intermediate_size = 5632;
  num_hidden_layers = 24;
  num_attention_heads = 16;
  num_key_value_heads = 16;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  num_local_experts = 60;
  num_experts_per_tok = 4;
  moe_intermediate_size = 1408;
}

void Qwen2MoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  expert_fields(v);
  sparse_fields(v);
  v("use_sliding_window", use_sliding_window, "Whether there are windows.");
  v("sliding_window", window, "Sliding window size in layers with one; 0: no window.");
  v("layer_types", layer_types, "sliding_attention or full_attention, for each layer.");
  v("max_window_layers", max_window_layers, "By default, every other layer before this one has a window.");
  v("shared_expert_intermediate_size", shared_expert_intermediate_size, "Width of the expert for every token.");
  v("qkv_bias", qkv_bias, "Biases on queries, keys and values.");
  v.only_when_changed();
  head_dim_field(v);
}

void Qwen2MoeConfig::post_init() {
  QwenMoeConfig::post_init();
  if (!use_sliding_window) window = 0;
  sliding_window = window > 0 ? std::optional(window) : std::nullopt;
  if (layer_types) return;
  layer_types.emplace();
  for (int64_t i = 0; i < num_hidden_layers; ++i)
    layer_types->emplace_back(use_sliding_window && i % 2 == 0 && i < max_window_layers ? kSliding : kFull);
}

void Qwen2MoeConfig::validate() const {
  QwenMoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("sliding_window", window, 0);
  check.at_least("shared_expert_intermediate_size", shared_expert_intermediate_size, 1);
}

}  // namespace easydel
