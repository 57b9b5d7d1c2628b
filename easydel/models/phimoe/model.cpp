// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/phimoe/model.h"

namespace easydel {
namespace {

MoeSpec experts_of(const PhimoeConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.intermediate_size,
                      .num_experts = c.num_local_experts,
                      .act = c.hidden_act,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method,
                      .gate_name = "w1",
                      .up_name = "w3",
                      .down_name = "w2"},
          .router = {.top_k = 2, .scoring = operations::RouterScoring::SparseMixer, .nearness = c.router_jitter_noise}};
}

}  // namespace

PhimoeDecoderLayer::PhimoeDecoderLayer(const PhimoeConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = block_spec(c, layer_idx).attention,
                       .mlp = experts_of(c),
                       .norm_eps = c.norm_eps,
                       .norm_kind = NormSpec::Kind::Layer,
                       .mlp_name = "block_sparse_moe"}) {}

PhimoeModel::PhimoeModel(const PhimoeConfig& c)
    : DecoderModel(c, {.norm = {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}}) {}

// The block is block_sparse_moe in files and mlp in transformers' memory, and its router is gate.
std::string PhimoeModel::torch_path(const std::string& path) const {
  std::string name = path;
  for (const auto& [in_files, in_memory] :
       {std::pair<std::string, std::string>{".block_sparse_moe.gate.", ".mlp.router."},
        {".block_sparse_moe.", ".mlp."}}) {
    if (const auto at = name.find(in_files); at != std::string::npos) name.replace(at, in_files.size(), in_memory);
  }
  return name;
}

}  // namespace easydel
