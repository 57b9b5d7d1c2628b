// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/granite/model.h"

namespace easydel {
namespace {

BlockSpec granite_block(const GraniteConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.scale = c.attention_multiplier;
  spec.residual_scale = c.residual_multiplier;
  return spec;
}

DecoderSpec granite_decoder(const GraniteConfig& c) {
  DecoderSpec spec = decoder_spec(c);
  spec.input_scale = c.embedding_multiplier;
  return spec;
}

}  // namespace

GraniteDecoderLayer::GraniteDecoderLayer(const GraniteConfig& c, int64_t layer_idx)
    : DecoderBlock(granite_block(c, layer_idx)) {}

GraniteModel::GraniteModel(const GraniteConfig& c) : DecoderModel(c, granite_decoder(c)) {}

LogitOptions GraniteForCausalLM::logit_options() const {
  return {.scale = 1.0 / static_cast<const GraniteConfig&>(config()).logits_scaling};
}

}  // namespace easydel
