// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/helium/model.h"

namespace easydel {
namespace {

NormSpec helium_norm(const HeliumConfig& c) { return {.eps = c.norm_eps, .multiply_before_cast = true}; }

BlockSpec helium_block(const HeliumConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = helium_norm(c);
  spec.attention.out_bias = false;
  spec.attention.rope_style = operations::RopeStyle::Interleaved;
  return spec;
}

}  // namespace

HeliumDecoderLayer::HeliumDecoderLayer(const HeliumConfig& c, int64_t layer_idx)
    : DecoderBlock(helium_block(c, layer_idx)) {}

HeliumModel::HeliumModel(const HeliumConfig& c) : DecoderModel(c, {.norm = helium_norm(c)}) {}

}  // namespace easydel
