#include "easydel/models/qwen3_moe/config.h"

#include <algorithm>

#include "easydel/infra/config/config_check.h"

namespace easydel {

Qwen3MoeConfig::Qwen3MoeConfig() {
  vocab_size = 151936;
  hidden_size = 2048;
  intermediate_size = 6144;
  num_hidden_layers = 24;
  num_attention_heads = 32;
  num_key_value_heads = 4;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  sliding_window = 4096;
  num_local_experts = 128;
  num_experts_per_tok = 8;
}

void Qwen3MoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("use_sliding_window", use_sliding_window, "Whether there is a window.");
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
  expert_fields(v);
  sparse_fields(v);
  v.only_when_changed();
  head_dim_field(v);
}

void QwenMoeConfig::sparse_fields(FieldVisitor& v) {
  v("decoder_sparse_step", decoder_sparse_step, "Every n-th layer has experts.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("norm_topk_prob", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.");
  v("mlp_only_layers", mlp_only_layers, "Layers without experts, regardless of decoder_sparse_step.");
}

void Qwen3MoeConfig::post_init() {
  QwenMoeConfig::post_init();
  if (!use_sliding_window) sliding_window.reset();
}

void QwenMoeConfig::post_init() {
  MoeConfig::post_init();
  if (!mlp_only_layers) mlp_only_layers.emplace();
}

bool QwenMoeConfig::has_experts(int64_t layer) const {
  if (num_local_experts == 0 || (layer + 1) % decoder_sparse_step != 0) return false;
  return !mlp_only_layers ||
         std::find(mlp_only_layers->begin(), mlp_only_layers->end(), layer) == mlp_only_layers->end();
}

void QwenMoeConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("decoder_sparse_step", decoder_sparse_step, 1);
}

}  // namespace easydel
