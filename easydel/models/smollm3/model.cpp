// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/smollm3/model.h"

namespace easydel {
namespace {

BlockSpec smollm3_block(const SmolLM3Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  if (c.no_rope_layers && !c.no_rope_layers->at(static_cast<std::size_t>(layer_idx))) spec.attention.rope.reset();
  return spec;
}

}  // namespace

SmolLM3DecoderLayer::SmolLM3DecoderLayer(const SmolLM3Config& c, int64_t layer_idx)
    : DecoderBlock(smollm3_block(c, layer_idx)) {}

}  // namespace easydel
