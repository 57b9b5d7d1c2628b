// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/deepseek/model.h"

namespace easydel {
namespace {

std::variant<MoeSpec, MlpSpec> mlp_of(const DeepseekConfig& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) return block_spec(c, layer_idx).mlp;
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.num_local_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.num_experts_per_tok, .renormalize = c.norm_topk_prob},
                 .shared_intermediate = c.moe_intermediate_size * c.n_shared_experts.value_or(0)};
}

}  // namespace

DeepseekDecoderLayer::DeepseekDecoderLayer(const DeepseekConfig& c, int64_t layer_idx)
    : MoeDecoderLayer(
          {.attention = block_spec(c, layer_idx).attention, .mlp = mlp_of(c, layer_idx), .norm_eps = c.norm_eps}) {}

// Its own code does not stack the experts.
std::string DeepseekModel::torch_path(const std::string& path) const {
  return path.find(".experts.") == std::string::npos ? path : "";
}

}  // namespace easydel
