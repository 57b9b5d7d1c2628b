// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/nemotron/model.h"

namespace easydel {
namespace {

NormSpec nemotron_norm(const NemotronConfig& c) {
  return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .weight_offset = 1};
}

BlockSpec nemotron_block(const NemotronConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = nemotron_norm(c);
  spec.mlp.gated = false;
  return spec;
}

}  // namespace

NemotronDecoderLayer::NemotronDecoderLayer(const NemotronConfig& c, int64_t layer_idx)
    : DecoderBlock(nemotron_block(c, layer_idx)) {}

NemotronModel::NemotronModel(const NemotronConfig& c) : DecoderModel(c, {.norm = nemotron_norm(c)}) {}

}  // namespace easydel
