// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/exaone4/model.h"

namespace easydel {
namespace {

BlockSpec exaone4_block(const Exaone4Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  if (c.sliding_window && !c.is_sliding(layer_idx)) spec.attention.rope.reset();
  spec.before_attention = spec.before_mlp = "";
  spec.after_attention = "post_attention_layernorm";
  spec.after_mlp = "post_feedforward_layernorm";
  return spec;
}

}  // namespace

Exaone4DecoderLayer::Exaone4DecoderLayer(const Exaone4Config& c, int64_t layer_idx)
    : DecoderBlock(exaone4_block(c, layer_idx)) {}

}  // namespace easydel
