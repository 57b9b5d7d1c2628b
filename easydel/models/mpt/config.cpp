#include "easydel/models/mpt/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

MptConfig::MptConfig() {
  hidden_size_key_ = "d_model";
  intermediate_size_key_ = nullptr;
  layers_key_ = "n_layers";
  heads_key_ = "n_heads";
  has_kv_heads_ = false;
  positions_key_ = nullptr;  // max_seq_len, which has no other name
  hidden_act_key_ = nullptr;
  norm_eps_key_ = "layer_norm_epsilon";
  attention_dropout_key_ = nullptr;
  vocab_size = 50368;
  hidden_size = 2048;
  intermediate_size = 4 * 2048;
  num_hidden_layers = 24;
  num_attention_heads = 16;
  hidden_act = "gelu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  use_cache = false;
  tie_word_embeddings = true;
}

void MptConfig::fields(FieldVisitor& v) {
  common_fields(v);
  v("max_seq_len", max_position_embeddings, "Maximum sequence length.");
  v("attn_config", attn_config, "clip_qkv, softmax_scale and attn_pdrop of the attention.");
  v("expansion_ratio", expansion_ratio, "Kept for transformers: the MLP is 4 times as wide.");
  v("resid_pdrop", resid_pdrop, "Kept for transformers.");
  v("emb_pdrop", emb_pdrop, "Kept for transformers.");
  v("learned_pos_emb", learned_pos_emb, "Kept for transformers: positions are distances.");
  v("init_device", init_device, "Kept for transformers.");
  v("logit_scale", logit_scale, "Kept for transformers: must be null.");
  v("no_bias", no_bias, "Kept for transformers: must be true.");
  v("embedding_fraction", embedding_fraction, "Kept for transformers.");
  v("norm_type", norm_type, "Kept for transformers: layer norms.");
}

void MptConfig::post_init() {
  intermediate_size = 4 * hidden_size;
  attention_dropout = attention_number("attn_pdrop").value_or(0);
}

std::optional<double> MptConfig::attention_number(const char* key) const {
  const Json* found = attn_config.is_object() ? attn_config.find(key) : nullptr;
  if (!found || found->is_null()) return std::nullopt;
  double value = 0;
  FieldType<double>::from_json(*found, value, concat("[MptConfig] attn_config.", key));
  return value;
}

void MptConfig::validate() const {
  DecoderConfig::validate();
  require<ConfigError>(attn_config.is_object(), "[MptConfig] attn_config must be an object; got ", attn_config.dump(),
                       ".");
  const ConfigCheck check(*this);
  check.between_zero_and_one("attn_config.attn_pdrop", attention_dropout);
  if (const auto clip = attention_number("clip_qkv")) check.above_zero("attn_config.clip_qkv", *clip);
  const auto must_be = [](const std::string& key, const Json* given, const Json& value) {
    require<NotSupportedError>(!given || *given == value, "[MptConfig] ", key, " must be ", value.dump(), "; got ",
                               given ? given->dump() : "", ".");
  };
  must_be("attn_config.attn_type", attn_config.find("attn_type"), "multihead_attention");
  must_be("attn_config.alibi", attn_config.find("alibi"), true);
  must_be("attn_config.alibi_bias_max", attn_config.find("alibi_bias_max"), 8);
  must_be("attn_config.prefix_lm", attn_config.find("prefix_lm"), false);
  must_be("attn_config.qk_ln", attn_config.find("qk_ln"), false);
  must_be("logit_scale", &logit_scale, Json());
  require<NotSupportedError>(no_bias, "[MptConfig] no_bias must be true; got false.");
  require<NotSupportedError>(expansion_ratio == 4, "[MptConfig] expansion_ratio must be 4; got ", expansion_ratio, ".");
}

PartitionRules MptConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"wte\\.weight$", specs.split_first(LogicalAxis::Vocab)},
                       {"attn\\.Wqkv\\.weight$", specs.split_first(LogicalAxis::Head)},
                       {"attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"ffn\\.up_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"ffn\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
