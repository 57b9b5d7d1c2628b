// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/olmo2/model.h"

namespace easydel {
namespace {

NormSpec olmo2_norm(const Olmo2Config& c) { return {.eps = c.norm_eps, .multiply_before_cast = true}; }

BlockSpec olmo2_block(const Olmo2Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = olmo2_norm(c);
  spec.attention.qk_norm = HeadNormSpec{spec.norm, HeadNormSpec::Over::AllHeads};
  spec.before_attention = "";
  spec.after_attention = "post_attention_layernorm";
  spec.before_mlp = "";
  spec.after_mlp = "post_feedforward_layernorm";
  return spec;
}

}  // namespace

Olmo2DecoderLayer::Olmo2DecoderLayer(const Olmo2Config& c, int64_t layer_idx)
    : DecoderBlock(olmo2_block(c, layer_idx)) {}

Olmo2Model::Olmo2Model(const Olmo2Config& c) : DecoderModel(c, {.norm = olmo2_norm(c)}) {}

}  // namespace easydel
