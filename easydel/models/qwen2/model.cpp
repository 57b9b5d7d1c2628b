// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/qwen2/model.h"

namespace easydel {
namespace {

BlockSpec qwen2_block(const Qwen2Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.qkv_bias = true;
  return spec;
}

}  // namespace

Qwen2DecoderLayer::Qwen2DecoderLayer(const Qwen2Config& c, int64_t layer_idx)
    : DecoderBlock(qwen2_block(c, layer_idx)) {}

}  // namespace easydel
