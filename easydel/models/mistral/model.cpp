// The layer: layers/decoder_block.cpp. It is the one that models/llama/model.cpp shows; the window comes from the
// config.
#include "easydel/models/mistral/model.h"

namespace easydel {
MistralDecoderLayer::MistralDecoderLayer(const MistralConfig& c, int64_t layer_idx)
    : DecoderBlock(block_spec(c, layer_idx)) {}

}  // namespace easydel
