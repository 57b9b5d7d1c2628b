#include "easydel/models/deepseek_v3/config.h"

#include "easydel/core/error.h"

namespace easydel {

DeepseekV3Config::DeepseekV3Config() {
  experts_alias_ = "num_local_experts";
  vocab_size = 129280;
  hidden_size = 7168;
  intermediate_size = 18432;
  num_hidden_layers = 61;
  num_attention_heads = 128;
  num_key_value_heads = 128;
  max_position_embeddings = 4096;
  bos_token_id = 0;
  eos_token_id = 1;
  hidden_act = "silu";
  first_k_dense_replace = 3;
  n_routed_experts = 256;
  n_shared_experts = 1;
  moe_intermediate_size = 2048;
  num_experts_per_tok = 8;
  norm_topk_prob = true;
  routed_scaling_factor = 2.5;
  n_group = 8;
  topk_group = 4;
}

void DeepseekV3Config::fields(FieldVisitor& v) {
  latent_fields(v);
  v("rope_interleave", rope_interleave, "Rotate adjacent pairs of dimensions instead of halves.");
  v("num_nextn_predict_layers", num_nextn_predict_layers, "Kept for transformers: further layers of the files.",
    {"num_mtp_layers"});
}

void DeepseekV3Config::validate() const {
  LatentMoeConfig::validate();
  if (!has_experts(num_hidden_layers - 1)) return;
  check_groups();
  require<ConfigError>(n_routed_experts / n_group.value_or(1) >= 2,
                       "[DeepseekV3Config] n_routed_experts must be at least 2 for each n_group; got ",
                       n_routed_experts, " and ", n_group.value_or(1), ".");
}

}  // namespace easydel
