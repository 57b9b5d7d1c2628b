#include "easydel/models/deepseek_v2/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

DeepseekV2Config::DeepseekV2Config() {
  vocab_size = 102400;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  max_position_embeddings = 2048;
  bos_token_id = 1;
  eos_token_id = 2;
  hidden_act = "silu";
}

void DeepseekV2Config::fields(FieldVisitor& v) {
  latent_fields(v);
  v("mlp_bias", mlp_bias, "Biases in the MLPs.");
  v("topk_method", topk_method, "greedy, or group_limited_greedy with n_group and topk_group.");
}

void DeepseekV2Config::validate() const {
  LatentMoeConfig::validate();
  if (!has_experts(num_hidden_layers - 1)) return;
  ConfigCheck(*this).one_of("topk_method", topk_method.value_or("null"), {"greedy", "group_limited_greedy"});
  if (in_groups()) check_groups();
}

}  // namespace easydel
