// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/ministral/model.h"

namespace easydel {

MinistralDecoderLayer::MinistralDecoderLayer(const MinistralConfig& c, int64_t layer_idx)
    : DecoderBlock(block_spec(c, layer_idx)) {}

}  // namespace easydel
