// The layer is written out below; its router and experts: layers/moe/moe.cpp. Letters: B batch, T tokens, D hidden.
#include "easydel/models/dbrx/model.h"

#include "easydel/models/mixtral/model.h"

namespace easydel {
namespace {

NormSpec dbrx_norm(const DbrxConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .bias = false}; }

AttentionSpec attention_of(const DbrxConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.fused_qkv = true;
  spec.clip = c.clip_qkv();
  spec.qkv_name = "Wqkv";
  spec.out_name = "out_proj";
  return spec;
}

MoeSpec experts_of(const DbrxConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.intermediate_size,
                      .num_experts = c.num_local_experts,
                      .act = c.hidden_act,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method,
                      .down_transposed = true},
          .router = {.top_k = c.num_experts_per_tok, .renormalize = c.normalizes_weights()},
          .router_name = "router",
          .router_in_files = "layer.weight"};
}

// Files have the gates of all experts in one matrix, w1 [E * I, D], and so v1 and w2.
void name_dbrx_stacks(const Experts& experts) {
  const auto store = [](Parameter& stack, std::vector<const char*> names) {
    stack.file_layout = [shape = stack.shape, names](const std::string& path) {
      FileLayout layout;
      const int64_t rows = shape[1] / static_cast<int64_t>(names.size());
      for (std::size_t n = 0; n < names.size(); ++n)
        layout.push_back({concat(path.substr(0, path.rfind('.')), ".mlp.", names[n]),
                          {0, static_cast<int64_t>(n) * rows, 0},
                          {shape[0], rows, shape[2]},
                          {shape[0] * rows, shape[2]}});
      return layout;
    };
  };
  store(*experts.stacks()[0].dense, {"w1", "v1"});
  store(*experts.stacks()[1].dense, {"w2"});
}

}  // namespace

DbrxNormAttentionNorm::DbrxNormAttentionNorm(const DbrxConfig& c, int64_t layer_idx)
    : norm_1(*add_norm(*this, "norm_1", c.hidden_size, dbrx_norm(c))),
      attn(add<Attention>("attn", attention_of(c, layer_idx))),
      norm_2(*add_norm(*this, "norm_2", c.hidden_size, dbrx_norm(c))) {}

DbrxBlock::DbrxBlock(const DbrxConfig& c, int64_t layer_idx)
    : layer_idx_(layer_idx),
      dropout_(c.resid_pdrop),
      jitter_(c.moe_jitter_eps()),
      norm_attn_norm_(add<DbrxNormAttentionNorm>("norm_attn_norm", c, layer_idx)),
      ffn_(add<SparseMoE>("ffn", experts_of(c))) {
  name_dbrx_stacks(dynamic_cast<const Experts&>(*ffn_.child("experts")));
}

LayerOutput DbrxBlock::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Attention::Output attended = norm_attn_norm_.attn(norm_attn_norm_.norm_1(x_BTD), ctx);
  const at::Tensor h_BTD = x_BTD + ctx.dropout(attended.hidden, dropout_, "resid_attn", layer_idx_);
  const at::Tensor read_BTD = router_jitter(norm_attn_norm_.norm_2(h_BTD), jitter_, ctx, layer_idx_);
  const SparseMoE::Output routed = ffn_(read_BTD);
  return {.hidden = h_BTD + ctx.dropout(routed.hidden, dropout_, "resid_mlp", layer_idx_),
          .attention_weights = attended.weights,
          .router_logits = ctx.output_router_logits ? routed.router_logits : at::Tensor()};
}

DbrxModel::DbrxModel(const DbrxConfig& c)
    : DecoderModel(c,
                   {.norm = dbrx_norm(c), .embeddings_name = "wte", .norm_name = "norm_f", .layers_name = "blocks"}) {}

std::string DbrxModel::torch_path(const std::string& path) const {
  if (path.find(".experts.") != std::string::npos) return "";  // the stacks are as in files
  constexpr std::string_view kRouter = ".ffn.router";
  const auto at = path.find(kRouter);
  return at == std::string::npos ? path : std::string(path).insert(at + kRouter.size(), ".layer");
}

}  // namespace easydel
