// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/mpt/model.h"

namespace easydel {
namespace {

NormSpec mpt_norm(const MptConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .bias = false}; }

BlockSpec mpt_block(const MptConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = mpt_norm(c);
  spec.dropout = c.attention_dropout;
  spec.attention_name = "attn";
  spec.mlp_name = "ffn";
  spec.before_attention = "norm_1";
  spec.before_mlp = "norm_2";
  spec.attention.fused_qkv = true;
  spec.attention.clip = c.attention_number("clip_qkv").value_or(0);
  spec.attention.scale = c.attention_number("softmax_scale");
  spec.attention.rope.reset();
  spec.attention.alibi = alibi_slopes(c.num_attention_heads);
  spec.attention.qkv_name = "Wqkv";
  spec.attention.out_name = "out_proj";
  spec.mlp.gated = false;
  return spec;
}

}  // namespace

MptBlock::MptBlock(const MptConfig& c, int64_t layer_idx) : DecoderBlock(mpt_block(c, layer_idx)) {}

MptModel::MptModel(const MptConfig& c)
    : DecoderModel(c, {.norm = mpt_norm(c), .embeddings_name = "wte", .norm_name = "norm_f", .layers_name = "blocks"}) {
}

}  // namespace easydel
