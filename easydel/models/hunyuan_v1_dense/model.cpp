// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/hunyuan_v1_dense/model.h"

namespace easydel {
namespace {

BlockSpec hunyuan_block(const HunYuanDenseV1Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  spec.attention.norm_after_rope = true;
  spec.attention.q_norm_name = "query_layernorm";
  spec.attention.k_norm_name = "key_layernorm";
  return spec;
}

}  // namespace

HunYuanDenseV1DecoderLayer::HunYuanDenseV1DecoderLayer(const HunYuanDenseV1Config& c, int64_t layer_idx)
    : DecoderBlock(hunyuan_block(c, layer_idx)) {}

}  // namespace easydel
