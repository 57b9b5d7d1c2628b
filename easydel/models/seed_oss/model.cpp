// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/seed_oss/model.h"

namespace easydel {
namespace {

BlockSpec seed_oss_block(const SeedOssConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.out_bias = c.attention_out_bias;
  spec.dropout = c.residual_dropout;
  return spec;
}

}  // namespace

SeedOssDecoderLayer::SeedOssDecoderLayer(const SeedOssConfig& c, int64_t layer_idx)
    : DecoderBlock(seed_oss_block(c, layer_idx)) {}

}  // namespace easydel
