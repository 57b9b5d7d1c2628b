// The layer is written out below; its attention and the model around it are those that models/llama/model.cpp shows.
// Letters: B batch, T tokens, D hidden.
#include "easydel/models/mixtral/model.h"

#include "easydel/core/random.h"

namespace easydel {

MoeSpec mixtral_experts(const MoeConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.intermediate_size,
                      .num_experts = c.num_local_experts,
                      .act = c.hidden_act,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method,
                      .gate_name = "w1",
                      .up_name = "w3",
                      .down_name = "w2"},
          .router = {.top_k = c.num_experts_per_tok}};
}

at::Tensor router_jitter(const at::Tensor& x_BTD, double noise, const ForwardContext& ctx, int64_t layer_idx) {
  if (noise == 0 || !ctx.dropout_key) return x_BTD;
  const at::Tensor factors = at::empty_like(x_BTD);
  const RandomKey key = ctx.dropout_key->fold("router_jitter").fold(static_cast<uint64_t>(layer_idx));
  fill_uniform(factors, key, 1 - noise, 1 + noise);
  return x_BTD * factors;
}

MixtralDecoderLayer::MixtralDecoderLayer(const MixtralConfig& c, int64_t layer_idx)
    : layer_idx_(layer_idx),
      router_jitter_noise_(c.router_jitter_noise),
      self_attn_(add<Attention>("self_attn", block_spec(c, layer_idx).attention)),
      block_sparse_moe_(add<SparseMoE>("block_sparse_moe", mixtral_experts(c))),
      input_layernorm_(add<RMSNorm>("input_layernorm", c.hidden_size, c.norm_eps)),
      post_attention_layernorm_(add<RMSNorm>("post_attention_layernorm", c.hidden_size, c.norm_eps)) {}

LayerOutput MixtralDecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Attention::Output attended = self_attn_(input_layernorm_(x_BTD), ctx);
  const at::Tensor h_BTD = x_BTD + attended.hidden;
  const at::Tensor normed_BTD = post_attention_layernorm_(h_BTD);
  const SparseMoE::Output routed = block_sparse_moe_(router_jitter(normed_BTD, router_jitter_noise_, ctx, layer_idx_));
  return {.hidden = h_BTD + routed.hidden,
          .attention_weights = attended.weights,
          .router_logits = ctx.output_router_logits ? routed.router_logits : at::Tensor()};
}

std::string mixtral_torch_path(const std::string& path) {
  constexpr std::string_view kInFiles = ".block_sparse_moe.";
  const auto at = path.find(kInFiles);
  return at == std::string::npos ? path : std::string(path).replace(at, kInFiles.size(), ".mlp.");
}

std::string MixtralModel::torch_path(const std::string& path) const { return mixtral_torch_path(path); }

}  // namespace easydel
