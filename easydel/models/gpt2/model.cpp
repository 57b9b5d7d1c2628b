// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows. Letters: B batch, T tokens, D hidden.
#include "easydel/models/gpt2/model.h"

#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

double attention_scale(const GPT2Config& c, int64_t layer_idx) {
  const double scale = c.scale_attn_weights ? 1 / std::sqrt(static_cast<double>(c.head_size())) : 1.0;
  return c.scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer_idx + 1) : scale;
}

BlockSpec gpt2_block(const GPT2Config& c, int64_t layer_idx) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.num_attention_heads,
                        .head_dim = c.head_size(),
                        .layer_idx = layer_idx,
                        .fused_qkv = true,
                        .qkv_bias = true,
                        .out_bias = true,
                        .transposed = true,
                        .rope = std::nullopt,
                        .scale = attention_scale(c, layer_idx),
                        .dropout = c.attn_pdrop,
                        .init_stddev = c.initializer_range,
                        .qkv_name = "c_attn",
                        .out_name = "c_proj"},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.inner_size(),
                  .act = c.hidden_act,
                  .gated = false,
                  .bias = true,
                  .transposed = true,
                  .init_stddev = c.initializer_range,
                  .up_name = "c_fc",
                  .down_name = "c_proj"},
          .norm = {.kind = NormSpec::Kind::Layer, .eps = c.layer_norm_epsilon},
          .dropout = c.resid_pdrop,
          .attention_name = "attn",
          .before_attention = "ln_1",
          .before_mlp = "ln_2"};
}

}  // namespace

GPT2Block::GPT2Block(const GPT2Config& c, int64_t layer_idx) : DecoderBlock(gpt2_block(c, layer_idx)) {}

GPT2Model::GPT2Model(const GPT2Config& c)
    : BaseModule(c),
      embd_pdrop_(c.embd_pdrop),
      wte_(add<Embedding>("wte", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
      wpe_(add<Embedding>("wpe", c.max_position_embeddings, c.hidden_size, c.initializer_range)),
      h_(add<ModuleList<GPT2Block>>("h")),
      ln_f_(add<LayerNorm>("ln_f", c.hidden_size, c.layer_norm_epsilon)) {
  require<NotSupportedError>(!c.add_cross_attention,
                             "[GPT2Model] add_cross_attention is not supported: only decoder-only models are.");
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) h_.append(c, i);
}

ModelOutput GPT2Model::forward(const PreparedInputs& inputs) const {
  at::Tensor x_BTD = embed(inputs, wte_) + wpe_(inputs.position_ids);
  if (inputs.token_type_ids.defined()) x_BTD = x_BTD + wte_(inputs.token_type_ids);
  return run_decoder(*this, inputs, drop_embeddings(x_BTD, embd_pdrop_, inputs), h_, ln_f_);
}

}  // namespace easydel
