// What Llama computes. A layer (layers/decoder_block.cpp), with x the residual stream:
//   x = x + self_attn(input_layernorm(x))
//   x = x + mlp(post_attention_layernorm(x))
//   self_attn(x) = o_proj(attention(rotary(q_proj(x)), rotary(k_proj(x)), v_proj(x)))    layers/attention/attention.cpp
//   mlp(x) = down_proj(silu(gate_proj(x)) * up_proj(x))                                  layers/mlp.cpp
// The model: norm(layers(embed_tokens(input_ids))), then lm_head (infra/decoder/decoder.cpp). block_spec() makes a
// layer's spec from the config; other families change fields of that spec, in their own model.cpp.
#include "easydel/models/llama/model.h"

namespace easydel {

LlamaDecoderLayer::LlamaDecoderLayer(const LlamaConfig& c, int64_t layer_idx)
    : DecoderBlock(block_spec(c, layer_idx)) {}

}  // namespace easydel
