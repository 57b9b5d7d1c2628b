// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/granitemoe/model.h"

namespace easydel {
namespace {

AttentionSpec attention_of(const GraniteMoeConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.scale = c.attention_multiplier;
  return spec;
}

MoeSpec experts_of(const GraniteMoeConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.intermediate_size,
                      .num_experts = c.num_local_experts,
                      .act = c.hidden_act,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method,
                      .stacked_gate_up_name = "input_linear",
                      .stacked_down_name = "output_linear"},
          .router = {.top_k = c.num_experts_per_tok, .scoring = operations::RouterScoring::SoftmaxOfChosen},
          .router_name = "router",
          .router_in_files = "layer.weight"};
}

DecoderSpec granitemoe_decoder(const GraniteMoeConfig& c) {
  DecoderSpec spec = decoder_spec(c);
  spec.input_scale = c.embedding_multiplier;
  return spec;
}

}  // namespace

GraniteMoeDecoderLayer::GraniteMoeDecoderLayer(const GraniteMoeConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx),
                       .mlp = experts_of(c),
                       .norm_eps = c.norm_eps,
                       .residual_scale = c.residual_multiplier,
                       .mlp_name = "block_sparse_moe"}) {}

GraniteMoeModel::GraniteMoeModel(const GraniteMoeConfig& c) : DecoderModel(c, granitemoe_decoder(c)) {}

LogitOptions GraniteMoeForCausalLM::logit_options() const {
  return {.scale = 1.0 / static_cast<const GraniteMoeConfig&>(config()).logits_scaling};
}

}  // namespace easydel
