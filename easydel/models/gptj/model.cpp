// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/gptj/model.h"

namespace easydel {
namespace {

NormSpec gptj_norm(const GPTJConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec gptj_block(const GPTJConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = gptj_norm(c);
  spec.dropout = c.resid_pdrop;
  spec.parallel = true;
  spec.attention_name = "attn";
  spec.before_attention = "ln_1";
  spec.before_mlp = "";
  spec.attention.rope_style = operations::RopeStyle::Interleaved;
  spec.attention.out_name = "out_proj";
  spec.mlp.gated = false;
  spec.mlp.up_name = "fc_in";
  spec.mlp.down_name = "fc_out";
  return spec;
}

}  // namespace

GPTJBlock::GPTJBlock(const GPTJConfig& c, int64_t layer_idx) : DecoderBlock(gptj_block(c, layer_idx)) {}

GPTJModel::GPTJModel(const GPTJConfig& c)
    : DecoderModel(c, {.norm = gptj_norm(c),
                       .embedding_dropout = c.embd_pdrop,
                       .embeddings_name = "wte",
                       .norm_name = "ln_f",
                       .layers_name = "h"}) {}

std::vector<RopeTableSpec> GPTJModel::rope_tables() const {
  const auto& c = static_cast<const GPTJConfig&>(config());
  return {{c.rope, c.rotary_dim}};
}

}  // namespace easydel
