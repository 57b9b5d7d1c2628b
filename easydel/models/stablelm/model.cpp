// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/stablelm/model.h"

namespace easydel {
namespace {

NormSpec stablelm_norm(const StableLmConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec stablelm_block(const StableLmConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = stablelm_norm(c);
  spec.dropout = c.hidden_dropout;
  spec.attention_out_dropout = 0;
  spec.parallel = c.use_parallel_residual;
  if (spec.parallel) spec.before_mlp = "";
  spec.attention.qkv_bias = c.use_qkv_bias;
  if (c.qk_layernorm) spec.attention.qk_norm = HeadNormSpec{spec.norm, HeadNormSpec::Over::OneByOne};
  spec.attention.q_norm_name = "q_layernorm";
  spec.attention.k_norm_name = "k_layernorm";
  return spec;
}

}  // namespace

StableLmDecoderLayer::StableLmDecoderLayer(const StableLmConfig& c, int64_t layer_idx)
    : DecoderBlock(stablelm_block(c, layer_idx)) {}

StableLmModel::StableLmModel(const StableLmConfig& c) : DecoderModel(c, {.norm = stablelm_norm(c)}) {}

}  // namespace easydel
