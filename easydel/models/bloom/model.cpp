// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/bloom/model.h"

namespace easydel {
namespace {

NormSpec bloom_norm(const BloomConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec bloom_block(const BloomConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = bloom_norm(c);
  spec.dropout = c.hidden_dropout;
  spec.residual_of_norm = c.apply_residual_connection_post_layernorm;
  spec.attention_name = "self_attention";
  spec.attention.fused_qkv = spec.attention.qkv_by_head = true;
  spec.attention.rope.reset();
  spec.attention.alibi = alibi_slopes(c.num_attention_heads);
  spec.attention.qkv_name = "query_key_value";
  spec.attention.out_name = "dense";
  spec.mlp.gated = false;
  spec.mlp.up_name = "dense_h_to_4h";
  spec.mlp.down_name = "dense_4h_to_h";
  return spec;
}

}  // namespace

BloomBlock::BloomBlock(const BloomConfig& c, int64_t layer_idx) : DecoderBlock(bloom_block(c, layer_idx)) {}

BloomModel::BloomModel(const BloomConfig& c)
    : DecoderModel(c, {.norm = bloom_norm(c),
                       .embeddings_name = "word_embeddings",
                       .norm_name = "ln_f",
                       .layers_name = "h",
                       .embedding_norm_name = "word_embeddings_layernorm"}) {}

}  // namespace easydel
