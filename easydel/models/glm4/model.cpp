// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that models/glm/model.cpp
// shows.
#include "easydel/models/glm4/model.h"

#include "easydel/models/glm/model.h"

namespace easydel {
namespace {

BlockSpec glm4_block(const Glm4Config& c, int64_t layer_idx) {
  BlockSpec spec = glm_block(c, layer_idx);
  spec.after_attention = "post_self_attn_layernorm";
  spec.after_mlp = "post_mlp_layernorm";
  return spec;
}

}  // namespace

Glm4DecoderLayer::Glm4DecoderLayer(const Glm4Config& c, int64_t layer_idx) : DecoderBlock(glm4_block(c, layer_idx)) {}

}  // namespace easydel
