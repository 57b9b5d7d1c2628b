// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/phi3/model.h"

namespace easydel {
namespace {

BlockSpec phi3_block(const Phi3Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.fused_qkv = true;
  spec.mlp.fused_gate_up = true;
  spec.dropout = c.resid_pdrop;
  return spec;
}

}  // namespace

Phi3DecoderLayer::Phi3DecoderLayer(const Phi3Config& c, int64_t layer_idx) : DecoderBlock(phi3_block(c, layer_idx)) {}

}  // namespace easydel
