#include "easydel/models/llama/model.h"

namespace easydel {

LlamaDecoderLayer::LlamaDecoderLayer(const LlamaConfig& c, int64_t layer_idx)
    : DecoderBlock(block_spec(c, layer_idx)) {}

}  // namespace easydel
