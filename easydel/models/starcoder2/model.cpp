// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/starcoder2/model.h"

namespace easydel {
namespace {

NormSpec starcoder2_norm(const Starcoder2Config& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec starcoder2_block(const Starcoder2Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = starcoder2_norm(c);
  spec.dropout = c.residual_dropout;
  spec.attention.qkv_bias = spec.attention.out_bias = spec.mlp.bias = c.use_bias;
  spec.mlp.gated = false;
  spec.mlp.up_name = "c_fc";
  spec.mlp.down_name = "c_proj";
  return spec;
}

}  // namespace

Starcoder2DecoderLayer::Starcoder2DecoderLayer(const Starcoder2Config& c, int64_t layer_idx)
    : DecoderBlock(starcoder2_block(c, layer_idx)) {}

Starcoder2Model::Starcoder2Model(const Starcoder2Config& c)
    : DecoderModel(c, {.norm = starcoder2_norm(c), .embedding_dropout = c.embedding_dropout}) {}

}  // namespace easydel
