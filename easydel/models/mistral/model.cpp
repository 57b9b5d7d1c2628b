#include "easydel/models/mistral/model.h"

namespace easydel {
MistralDecoderLayer::MistralDecoderLayer(const MistralConfig& c, int64_t layer_idx)
    : DecoderBlock(block_spec(c, layer_idx)) {}

}  // namespace easydel
