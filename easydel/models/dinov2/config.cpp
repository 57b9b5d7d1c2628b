#include "easydel/models/dinov2/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Dinov2Config::Dinov2Config() {
  hidden_size = 768;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  hidden_act = "gelu";
  norm_eps = 1e-6;
  patch_size = 14;
  attention_dropout_key_ = "attention_probs_dropout_prob";
}

void Dinov2Config::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("mlp_ratio", mlp_ratio, "Width of the MLP as a multiple of hidden_size.");
  v("hidden_dropout_prob", hidden_dropout, "Dropout probability of the embeddings.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  image_fields(v);
  v("qkv_bias", qkv_bias, "Biases on queries, keys and values.");
  v("layerscale_value", layerscale_value, "Initial value of the LayerScale after attention and MLP.");
  v("drop_path_rate", drop_path_rate, "Stochastic depth probability; only 0 is supported.");
  v("use_swiglu_ffn", use_swiglu_ffn, "A gated MLP.");
  v("apply_layernorm", apply_layernorm, "Kept for transformers.");
  v("reshape_hidden_states", reshape_hidden_states, "Kept for transformers.");
  v("use_mask_token", use_mask_token, "A weight of pretraining is in the files.");
  v("out_features", out_features, "Kept for transformers.");
  v("out_indices", out_indices, "Kept for transformers.");
  v("stage_names", stage_names, "Kept for transformers.");
}

void Dinov2Config::post_init() {
  intermediate_size = hidden_size * mlp_ratio;
  if (use_swiglu_ffn) intermediate_size = (intermediate_size * 2 / 3 + 7) / 8 * 8;
  stage_names = std::vector<std::string>{"stem"};
  for (int64_t i = 1; i <= num_hidden_layers; ++i) stage_names->push_back("stage" + std::to_string(i));
  if (!out_features) out_features = std::vector<std::string>{stage_names->back()};
  if (!out_indices) out_indices = std::vector<int64_t>{num_hidden_layers};
}

void Dinov2Config::validate() const {
  VisionEncoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("mlp_ratio", mlp_ratio, 1);
  require<NotSupportedError>(drop_path_rate == 0, "[", class_name(),
                             "] drop_path_rate must be 0: stochastic depth is not supported; got ", drop_path_rate,
                             ".");
}

}  // namespace easydel
