// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/olmo/model.h"

namespace easydel {
namespace {

NormSpec olmo_norm(const OlmoConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .weight = false}; }

BlockSpec olmo_block(const OlmoConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = olmo_norm(c);
  spec.attention.clip = c.clip_qkv.value_or(0);
  return spec;
}

}  // namespace

OlmoDecoderLayer::OlmoDecoderLayer(const OlmoConfig& c, int64_t layer_idx) : DecoderBlock(olmo_block(c, layer_idx)) {}

OlmoModel::OlmoModel(const OlmoConfig& c) : DecoderModel(c, {.norm = olmo_norm(c)}) {}

}  // namespace easydel
