// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/glm/model.h"

namespace easydel {

BlockSpec glm_block(const GlmConfigBase& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.out_bias = false;
  spec.attention.rope_style = operations::RopeStyle::Interleaved;
  spec.mlp.fused_gate_up = true;
  return spec;
}

GlmDecoderLayer::GlmDecoderLayer(const GlmConfig& c, int64_t layer_idx) : DecoderBlock(glm_block(c, layer_idx)) {}

}  // namespace easydel
