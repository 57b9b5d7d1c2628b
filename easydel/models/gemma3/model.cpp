// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/gemma3/model.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/layers/window_in_mask.h"

namespace easydel {
namespace {

NormSpec gemma3_norm(const Gemma3TextConfig& c) {
  return {.eps = c.norm_eps, .weight_offset = 1, .multiply_before_cast = true};
}

BlockSpec gemma3_block(const Gemma3TextConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = gemma3_norm(c);
  spec.attention.scale = 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar));
  spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  spec.attention.rope = c.is_sliding(layer_idx) ? 1 : 0;
  spec.after_attention = "post_attention_layernorm";
  spec.before_mlp = "pre_feedforward_layernorm";
  spec.after_mlp = "post_feedforward_layernorm";
  return spec;
}

}  // namespace

Gemma3DecoderLayer::Gemma3DecoderLayer(const Gemma3TextConfig& c, int64_t layer_idx)
    : DecoderBlock(gemma3_block(c, layer_idx)), window_(c.window_of(layer_idx)) {}

LayerOutput Gemma3DecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const at::Tensor& given = ctx.mask.explicit_mask;
  if (window_ == 0 || ctx.mask.causal || !given.defined()) return DecoderBlock::operator()(x_BTD, ctx);
  const int64_t queries = given.size(2), keys = given.size(3);
  const at::Tensor slots = at::arange(keys, given.options().dtype(at::kLong));
  ForwardContext own = ctx;
  own.mask.explicit_mask = given.logical_and(slots.gt(slots.narrow(0, keys - queries, queries).unsqueeze(1) - window_));
  own.mask.sliding_window = kWindowInMask;
  own.mask.memory = MaskInfo::make_memory();
  return DecoderBlock::operator()(x_BTD, own);
}

Gemma3TextModel::Gemma3TextModel(const Gemma3TextConfig& c)
    : DecoderModel(c, {.norm = gemma3_norm(c), .embedding_scale = std::sqrt(static_cast<double>(c.hidden_size))}) {}

std::vector<RopeTableSpec> Gemma3TextModel::rope_tables() const {
  const auto& c = static_cast<const Gemma3TextConfig&>(config());
  return {{c.rope_by_type.full_attention, c.head_size()}, {c.rope_by_type.sliding_attention, c.head_size()}};
}

LogitOptions Gemma3ForCausalLM::logit_options() const {
  return {.softcap = static_cast<const Gemma3TextConfig&>(config()).final_logit_softcapping.value_or(0)};
}

}  // namespace easydel
