#include "easydel/models/hunyuan_v1_dense/config.h"

#include <cmath>

namespace easydel {

void list_fields(AlphaRope& rope, FieldVisitor& v) {
  list_fields(static_cast<RopeParameters&>(rope), v);
  v("alpha", rope.alpha, "dynamic: a factor of the base, whatever the length.");
}

HunYuanDenseV1Config::HunYuanDenseV1Config() {
  vocab_size = 290943;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  pad_token_id = 0;
  bos_token_id = 1;
  eos_token_id = 2;
}

void HunYuanDenseV1Config::fields(FieldVisitor& v) {
  common_fields(v);
  v("rope_parameters", alpha_rope, "Rotary position embeddings.");
  head_dim_field(v);
  bias_field(v);
  v("pretraining_tp", pretraining_tp, "Kept for transformers.");
  v("eod_token_id", eod_token_id, "Kept for transformers.");
}

void HunYuanDenseV1Config::post_init() {
  fill_original_length(alpha_rope, max_position_embeddings);
  rope = alpha_rope;
  DecoderConfig::post_init();
  if (rope.rope_type != "dynamic" || alpha_rope.alpha.value_or(0) <= 0 || head_size() <= 2) return;
  const auto dim = static_cast<double>(head_size());
  rope.rope_type = "default";
  rope.rope_theta *= std::pow(*alpha_rope.alpha, dim / (dim - 2));
}

}  // namespace easydel
