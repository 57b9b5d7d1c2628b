// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/cohere2/model.h"

namespace easydel {
namespace {

NormSpec cohere2_norm(const Cohere2Config& c) {
  return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .bias = false};
}

BlockSpec cohere2_block(const Cohere2Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = cohere2_norm(c);
  spec.parallel = true;
  spec.before_mlp = "";
  spec.attention.rope_style = operations::RopeStyle::Interleaved;
  if (!c.is_sliding(layer_idx)) spec.attention.rope.reset();
  return spec;
}

}  // namespace

Cohere2DecoderLayer::Cohere2DecoderLayer(const Cohere2Config& c, int64_t layer_idx)
    : DecoderBlock(cohere2_block(c, layer_idx)) {}

Cohere2Model::Cohere2Model(const Cohere2Config& c) : DecoderModel(c, {.norm = cohere2_norm(c)}) {}

LogitOptions Cohere2ForCausalLM::logit_options() const {
  return {.scale = static_cast<const Cohere2Config&>(config()).logit_scale};
}

}  // namespace easydel
