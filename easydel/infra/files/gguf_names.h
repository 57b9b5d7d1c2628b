// What GGUF files call the tensors of a model, and Hugging Face's files.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace easydel {

struct GgufName {
  std::string_view gguf, hugging_face;
};

// In a block: "blk.0.attn_q.weight" is "model.layers.0.self_attn.q_proj.weight".
inline constexpr std::array<GgufName, 11> kGgufLayerNames{{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};
// Stacked in one file, and one by one in the other: "block_sparse_moe.experts.3.w1". The router, "ffn_gate_inp", is
// "block_sparse_moe.gate".
struct GgufExperts {
  std::string_view block;
  std::array<GgufName, 3> names;
};
inline constexpr std::string_view kGgufRouter = "ffn_gate_inp";
inline constexpr GgufExperts kMixtralExperts{
    "block_sparse_moe", {{{"ffn_gate_exps", "w1"}, {"ffn_up_exps", "w3"}, {"ffn_down_exps", "w2"}}}};
inline constexpr GgufExperts kQwenExperts{
    "mlp", {{{"ffn_gate_exps", "gate_proj"}, {"ffn_up_exps", "up_proj"}, {"ffn_down_exps", "down_proj"}}}};
inline constexpr std::array<GgufName, 3> kGgufOuterNames{{{"token_embd.weight", "model.embed_tokens.weight"},
                                                          {"output_norm.weight", "model.norm.weight"},
                                                          {"output.weight", "lm_head.weight"}}};

}  // namespace easydel
