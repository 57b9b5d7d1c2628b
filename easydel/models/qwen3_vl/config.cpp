#include "easydel/models/qwen3_vl/config.h"

#include <cmath>

#include "easydel/infra/config/config_check.h"

namespace easydel {

Qwen3VLVisionConfig::Qwen3VLVisionConfig() {
  num_hidden_layers = 27;
  hidden_size = 1152;
  intermediate_size = 4304;
  hidden_act = "gelu_pytorch_tanh";
  patch_size = 16;
}

void Qwen3VLVisionConfig::fields(FieldVisitor& v) {
  tower_fields(v);
  v("hidden_size", hidden_size, "Width of the tower.");
  v("intermediate_size", intermediate_size, "Width of the tower's MLPs.");
  v("out_hidden_size", out_hidden_size, "Width of a token, which is the decoder's.");
  v("num_position_embeddings", num_position_embeddings, "Learned positions of a square, stretched over each image.");
  v("deepstack_visual_indexes", deepstack_visual_indexes,
    "Layers of the tower whose features are added after the decoder's first layers.");
}

void Qwen3VLVisionConfig::validate() const {
  QwenVisionConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("intermediate_size", intermediate_size, 1);
  check.at_least("num_position_embeddings", num_position_embeddings, 1);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(num_position_embeddings)));
  require<ConfigError>(side * side == num_position_embeddings, "[", class_name(),
                       "] num_position_embeddings must be a square; got ", num_position_embeddings, ".");
  for (const int64_t layer : deepstack_visual_indexes)
    require<ConfigError>(layer >= 0 && layer < num_hidden_layers, "[", class_name(),
                         "] deepstack_visual_indexes must be layers of the tower, below ", num_hidden_layers, "; got ",
                         layer, ".");
}

Qwen3VLTextConfig::Qwen3VLTextConfig() {
  vocab_size = 151936;
  hidden_size = 4096;
  intermediate_size = 22016;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 32;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 128000;
  mrope.rope_theta = 500000;
  own_sections_ = {24, 20, 20};
}

void Qwen3VLTextConfig::fields(FieldVisitor& v) {
  text_fields(v);
  head_dim_field(v);
  bias_field(v);
  v.only_when_changed();
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("tie_word_embeddings", tie_word_embeddings,
    "Share one matrix between input and output embeddings, in older files.");
}

Qwen3VLConfig::Qwen3VLConfig() {
  vision_config = SubConfig(Qwen3VLVisionConfig());
  text_config = SubConfig(Qwen3VLTextConfig());
  post_init();
}

}  // namespace easydel
