// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/ernie4_5/model.h"

namespace easydel {
namespace {

BlockSpec ernie_block(const Ernie4_5Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.qkv_bias = spec.attention.out_bias = spec.mlp.bias = c.use_bias;
  spec.attention.rope_style = operations::RopeStyle::Interleaved;
  return spec;
}

}  // namespace

Ernie4_5DecoderLayer::Ernie4_5DecoderLayer(const Ernie4_5Config& c, int64_t layer_idx)
    : DecoderBlock(ernie_block(c, layer_idx)) {}

}  // namespace easydel
