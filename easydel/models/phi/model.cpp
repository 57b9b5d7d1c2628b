// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/phi/model.h"

namespace easydel {
namespace {

NormSpec phi_norm(const PhiConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec phi_block(const PhiConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = phi_norm(c);
  spec.dropout = c.resid_pdrop;
  spec.parallel = true;
  spec.before_mlp = "";
  if (c.qk_layernorm) spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  spec.attention.q_norm_name = "q_layernorm";
  spec.attention.k_norm_name = "k_layernorm";
  spec.attention.out_name = "dense";
  spec.mlp.gated = false;
  spec.mlp.up_name = "fc1";
  spec.mlp.down_name = "fc2";
  return spec;
}

}  // namespace

PhiDecoderLayer::PhiDecoderLayer(const PhiConfig& c, int64_t layer_idx) : DecoderBlock(phi_block(c, layer_idx)) {}

PhiModel::PhiModel(const PhiConfig& c)
    : DecoderModel(c, {.norm = phi_norm(c), .embedding_dropout = c.embd_pdrop, .norm_name = "final_layernorm"}) {}

}  // namespace easydel
