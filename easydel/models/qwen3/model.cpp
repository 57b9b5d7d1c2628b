// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/qwen3/model.h"

namespace easydel {
namespace {

BlockSpec qwen3_block(const Qwen3Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  return spec;
}

}  // namespace

Qwen3DecoderLayer::Qwen3DecoderLayer(const Qwen3Config& c, int64_t layer_idx)
    : DecoderBlock(qwen3_block(c, layer_idx)) {}

}  // namespace easydel
