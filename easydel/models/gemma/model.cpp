// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/gemma/model.h"

#include <cmath>

namespace easydel {
namespace {

NormSpec gemma_norm(const GemmaConfig& c) {
  return {.eps = c.norm_eps, .weight_offset = 1, .multiply_before_cast = true};
}

BlockSpec gemma_block(const GemmaConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = gemma_norm(c);
  return spec;
}

}  // namespace

GemmaDecoderLayer::GemmaDecoderLayer(const GemmaConfig& c, int64_t layer_idx)
    : DecoderBlock(gemma_block(c, layer_idx)) {}

GemmaModel::GemmaModel(const GemmaConfig& c)
    : DecoderModel(c, {.norm = gemma_norm(c), .embedding_scale = std::sqrt(static_cast<double>(c.hidden_size))}) {}

}  // namespace easydel
