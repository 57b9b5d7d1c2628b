#include "easydel/models/gemma2/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

CappedGemmaConfig::CappedGemmaConfig() {
  hidden_act_key_ = "hidden_activation";
  hidden_size = 2304;
  intermediate_size = 9216;
  num_hidden_layers = 26;
  num_attention_heads = 8;
  num_key_value_heads = 4;
  head_dim = 256;
  hidden_act = "gelu_pytorch_tanh";
  pad_token_id = 0;
  eos_token_id = 1;
  bos_token_id = 2;
  tie_word_embeddings = true;
  sliding_window = 4096;
}

void CappedGemmaConfig::gemma_fields(FieldVisitor& v) {
  common_fields(v);
  head_dim_field(v);
  bias_field(v);
  v("query_pre_attn_scalar", query_pre_attn_scalar, "Attention scores are divided by its square root.");
  window_fields(v);
  v("final_logit_softcapping", final_logit_softcapping, "Soft cap of the logits; null: none.");
  v("attn_logit_softcapping", attn_logit_softcapping, "Soft cap of the attention scores in gemma2; null: none.");
  v("use_bidirectional_attention", use_bidirectional_attention, "Not supported: bidirectional attention.");
}

void CappedGemmaConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.multiple("hidden_size", hidden_size, "num_attention_heads", num_attention_heads);  // transformers insists
  check.at_least("query_pre_attn_scalar", query_pre_attn_scalar, 1);
  if (final_logit_softcapping) check.above_zero("final_logit_softcapping", *final_logit_softcapping);
  if (attn_logit_softcapping) check.above_zero("attn_logit_softcapping", *attn_logit_softcapping);
  check.causal("use_bidirectional_attention", use_bidirectional_attention);
}

Gemma2Config::Gemma2Config() {
  vocab_size = 256000;
  max_position_embeddings = 8192;
  final_logit_softcapping = 30.0;
  attn_logit_softcapping = 50.0;
}

void Gemma2Config::fields(FieldVisitor& v) {
  gemma_fields(v);
  rope_field(v);
}

void Gemma2Config::post_init() {
  DecoderConfig::post_init();
  alternate_layers(2);
}

}  // namespace easydel
