// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/arcee/model.h"

namespace easydel {
namespace {

BlockSpec arcee_block(const ArceeConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.mlp.gated = false;
  return spec;
}

}  // namespace

ArceeDecoderLayer::ArceeDecoderLayer(const ArceeConfig& c, int64_t layer_idx)
    : DecoderBlock(arcee_block(c, layer_idx)) {}

}  // namespace easydel
