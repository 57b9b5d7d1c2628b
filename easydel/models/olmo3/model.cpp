// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/olmo3/model.h"

namespace easydel {
namespace {

NormSpec olmo3_norm(const Olmo3Config& c) { return {.eps = c.norm_eps, .multiply_before_cast = true}; }

BlockSpec olmo3_block(const Olmo3Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = olmo3_norm(c);
  spec.attention.qk_norm = HeadNormSpec{spec.norm, HeadNormSpec::Over::AllHeads};
  spec.attention.rope = c.is_sliding(layer_idx) ? 1 : 0;
  spec.before_attention = spec.before_mlp = "";
  spec.after_attention = "post_attention_layernorm";
  spec.after_mlp = "post_feedforward_layernorm";
  return spec;
}

}  // namespace

Olmo3DecoderLayer::Olmo3DecoderLayer(const Olmo3Config& c, int64_t layer_idx)
    : DecoderBlock(olmo3_block(c, layer_idx)) {}

Olmo3Model::Olmo3Model(const Olmo3Config& c) : DecoderModel(c, {.norm = olmo3_norm(c)}) {}

std::vector<RopeTableSpec> Olmo3Model::rope_tables() const {
  const auto& c = static_cast<const Olmo3Config&>(config());
  return {{c.rope_by_type.full_attention, c.head_size()}, {c.rope_by_type.sliding_attention, c.head_size()}};
}

}  // namespace easydel
