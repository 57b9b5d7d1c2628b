#include "easydel/models/qwen3_5/config.h"

namespace easydel {

Qwen3_5TextConfig::Qwen3_5TextConfig() {
  vocab_size = 248320;
  hidden_size = 4096;
  intermediate_size = 12288;
  num_hidden_layers = 32;
  num_attention_heads = 16;
  num_key_value_heads = 4;
  head_dim = 256;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  rope.partial_rotary_factor = 0.25;
}

void Qwen3_5TextConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  linear.fields(v);
}

void Qwen3_5TextConfig::post_init() {
  DecoderConfig::post_init();
  linear.post_init(num_hidden_layers);
}

void Qwen3_5TextConfig::validate() const {
  DecoderConfig::validate();
  linear.validate(*this);
}

void Qwen3_5TextConfig::rename_older_keys(Json& given, bool is_whole) const {
  LinearAttentionKeys::rename_older_keys(given, is_whole, num_hidden_layers);
}

PartitionRules Qwen3_5TextConfig::get_partition_rules(bool fully_sharded) const {
  return linear.rules(DecoderConfig::get_partition_rules(fully_sharded), sharding, fully_sharded);
}

}  // namespace easydel
