#include "easydel/models/vit/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

ViTConfig::ViTConfig() {
  hidden_size = 768;
  intermediate_size = 3072;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  hidden_act = "gelu";
  norm_eps = 1e-12;
  attention_dropout_key_ = "attention_probs_dropout_prob";
}

void ViTConfig::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("hidden_dropout_prob", hidden_dropout, "Dropout probability of the outputs of attention and MLP.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  image_fields(v);
  v("qkv_bias", qkv_bias, "Biases on queries, keys and values.");
  v("encoder_stride", encoder_stride, "Kept for transformers.");
  v("pooler_output_size", pooler_output_size, "Size of pooler_output; null: hidden_size.");
  v("pooler_act", pooler_act, "Activation of the pooler.");
}

void ViTConfig::post_init() {
  if (!pooler_output_size) pooler_output_size = hidden_size;
}

void ViTConfig::validate() const {
  VisionEncoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("pooler_output_size", pooler_output_size, 1);
  check.activation("pooler_act", pooler_act);
}

}  // namespace easydel
