// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/gemma2/model.h"

#include <cmath>

namespace easydel {
namespace {

NormSpec gemma2_norm(const Gemma2Config& c) {
  return {.eps = c.norm_eps, .weight_offset = 1, .multiply_before_cast = true};
}

BlockSpec gemma2_block(const Gemma2Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = gemma2_norm(c);
  spec.attention.scale = 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar));
  spec.attention.softcap = c.attn_logit_softcapping.value_or(0);
  spec.after_attention = "post_attention_layernorm";
  spec.before_mlp = "pre_feedforward_layernorm";
  spec.after_mlp = "post_feedforward_layernorm";
  return spec;
}

}  // namespace

Gemma2DecoderLayer::Gemma2DecoderLayer(const Gemma2Config& c, int64_t layer_idx)
    : DecoderBlock(gemma2_block(c, layer_idx)) {}

Gemma2Model::Gemma2Model(const Gemma2Config& c)
    : DecoderModel(c, {.norm = gemma2_norm(c), .embedding_scale = std::sqrt(static_cast<double>(c.hidden_size))}) {}

LogitOptions Gemma2ForCausalLM::logit_options() const {
  return {.softcap = static_cast<const Gemma2Config&>(config()).final_logit_softcapping.value_or(0)};
}

}  // namespace easydel
