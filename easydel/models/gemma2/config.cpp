#include "easydel/models/gemma2/config.h"

#include "easydel/infra/config_check.h"

namespace easydel {

Gemma2Config::Gemma2Config() {
  hidden_act_key_ = "hidden_activation";
  vocab_size = 256000;
  hidden_size = 2304;
  intermediate_size = 9216;
  num_hidden_layers = 26;
  num_attention_heads = 8;
  num_key_value_heads = 4;
  head_dim = 256;
  hidden_act = "gelu_pytorch_tanh";
  max_position_embeddings = 8192;
  pad_token_id = 0;
  eos_token_id = 1;
  bos_token_id = 2;
  tie_word_embeddings = true;
  sliding_window = 4096;
}

void Gemma2Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  v("query_pre_attn_scalar", query_pre_attn_scalar, "Scores are divided by its root.");
  window_fields(v);
  v("final_logit_softcapping", final_logit_softcapping, "Soft cap of the logits; null: none.");
  v("attn_logit_softcapping", attn_logit_softcapping, "Soft cap of the attention scores; null: none.");
  v("use_bidirectional_attention", use_bidirectional_attention, "Not supported: let tokens see those behind them.");
}

void Gemma2Config::post_init() {
  DecoderConfig::post_init();
  alternate_layers(2);
}

void Gemma2Config::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.multiple("hidden_size", hidden_size, "num_attention_heads", num_attention_heads);  // transformers insists
  check.at_least("query_pre_attn_scalar", query_pre_attn_scalar, 1);
  if (final_logit_softcapping) check.above_zero("final_logit_softcapping", *final_logit_softcapping);
  if (attn_logit_softcapping) check.above_zero("attn_logit_softcapping", *attn_logit_softcapping);
  check.causal("use_bidirectional_attention", use_bidirectional_attention);
}

}  // namespace easydel
