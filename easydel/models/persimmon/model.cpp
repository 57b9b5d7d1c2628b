// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/persimmon/model.h"

namespace easydel {
namespace {

NormSpec persimmon_norm(const PersimmonConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec persimmon_block(const PersimmonConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = persimmon_norm(c);
  spec.dropout = c.hidden_dropout;
  spec.attention_out_dropout = 0;
  spec.attention.fused_qkv = spec.attention.qkv_by_head = true;
  spec.attention.qkv_name = "query_key_value";
  spec.attention.out_name = "dense";
  if (c.qk_layernorm) spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  spec.attention.q_norm_name = "q_layernorm";
  spec.attention.k_norm_name = "k_layernorm";
  spec.mlp.gated = false;
  spec.mlp.up_name = "dense_h_to_4h";
  spec.mlp.down_name = "dense_4h_to_h";
  return spec;
}

}  // namespace

PersimmonDecoderLayer::PersimmonDecoderLayer(const PersimmonConfig& c, int64_t layer_idx)
    : DecoderBlock(persimmon_block(c, layer_idx)) {}

PersimmonModel::PersimmonModel(const PersimmonConfig& c)
    : DecoderModel(c, {.norm = persimmon_norm(c), .norm_name = "final_layernorm"}) {}

}  // namespace easydel
