// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/cohere/model.h"

namespace easydel {
namespace {

NormSpec cohere_norm(const CohereConfig& c) {
  return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .bias = false};
}

BlockSpec cohere_block(const CohereConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = cohere_norm(c);
  spec.parallel = true;
  spec.before_mlp = "";
  spec.attention.rope_style = operations::RopeStyle::Interleaved;
  if (c.use_qk_norm.value_or(false)) spec.attention.qk_norm = HeadNormSpec{spec.norm, HeadNormSpec::Over::EachHead};
  return spec;
}

}  // namespace

CohereDecoderLayer::CohereDecoderLayer(const CohereConfig& c, int64_t layer_idx)
    : DecoderBlock(cohere_block(c, layer_idx)) {}

CohereModel::CohereModel(const CohereConfig& c) : DecoderModel(c, {.norm = cohere_norm(c)}) {}

LogitOptions CohereForCausalLM::logit_options() const {
  return {.scale = static_cast<const CohereConfig&>(config()).logit_scale};
}

}  // namespace easydel
