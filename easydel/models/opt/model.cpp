// The layer is written out below; its attention is the one that models/llama/model.cpp shows. Letters: B batch,
// T tokens, D hidden.
#include "easydel/models/opt/model.h"

#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr int64_t kPositionOffset = 2;  // the table's first two rows are not used

AttentionSpec attention_of(const OPTConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.rope.reset();
  spec.out_name = "out_proj";
  return spec;
}

NormSpec norm_of(const OPTConfig& c) {
  return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .weight = c.layer_norm_elementwise_affine};
}

LinearOptions linear_of(const OPTConfig& c, const char* name) {
  return {.bias = c.enable_bias, .init_stddev = c.initializer_range, .name = name};
}

}  // namespace

OPTDecoderLayer::OPTDecoderLayer(const OPTConfig& c, int64_t layer_idx)
    : layer_idx_(layer_idx),
      dropout_(c.dropout),
      norm_before_(c.do_layer_norm_before),
      act_(operations::find_activation(c.hidden_act)),
      self_attn_(add<Attention>("self_attn", attention_of(c, layer_idx))),
      self_attn_layer_norm_(*add_norm(*this, "self_attn_layer_norm", c.hidden_size, norm_of(c))),
      fc1_(add<Linear>("fc1", c.hidden_size, Dim(c.intermediate_size, LogicalAxis::MlpIntermediate),
                       linear_of(c, "mlp_up"))),
      fc2_(add<Linear>("fc2", Dim(c.intermediate_size, LogicalAxis::MlpIntermediate), c.hidden_size,
                       linear_of(c, "mlp_down"))),
      final_layer_norm_(*add_norm(*this, "final_layer_norm", c.hidden_size, norm_of(c))) {}

LayerOutput OPTDecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Attention::Output attended = self_attn_(norm_before_ ? self_attn_layer_norm_(x_BTD) : x_BTD, ctx);
  at::Tensor h_BTD = x_BTD + ctx.dropout(attended.hidden, dropout_, "resid_attn", layer_idx_);
  if (!norm_before_) h_BTD = self_attn_layer_norm_(h_BTD);
  at::Tensor inner = norm_before_ ? final_layer_norm_(h_BTD) : h_BTD;
  if (parallel())
    inner =
        collectives::identity_forward_sum_backward(inner, parallel()->group(split_over(LogicalAxis::MlpIntermediate)));
  inner = fc2_(act_(fc1_(inner)));
  const at::Tensor out_BTD = h_BTD + ctx.dropout(inner, dropout_, "resid_mlp", layer_idx_);
  return {.hidden = norm_before_ ? out_BTD : final_layer_norm_(out_BTD), .attention_weights = attended.weights};
}

OPTDecoder::OPTDecoder(const OPTConfig& c)
    : embed_tokens(add<Embedding>("embed_tokens", Dim(c.vocab_size, LogicalAxis::Vocab),
                                  c.word_embed_proj_dim.value_or(c.hidden_size), c.initializer_range)),
      embed_positions(add<Embedding>("embed_positions", c.max_position_embeddings + kPositionOffset, c.hidden_size,
                                     c.initializer_range)),
      layers(add<ModuleList<OPTDecoderLayer>>("layers")) {
  const int64_t width = c.word_embed_proj_dim.value_or(c.hidden_size);
  if (width != c.hidden_size) {
    const LinearOptions plain{.init_stddev = c.initializer_range};
    project_out = &add<Linear>("project_out", c.hidden_size, width, plain);
    project_in = &add<Linear>("project_in", width, c.hidden_size, plain);
  }
  if (c.do_layer_norm_before && !c.remove_final_layer_norm)
    final_layer_norm = add_norm(*this, "final_layer_norm", c.hidden_size, norm_of(c));
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.append(c, i);
}

ModelOutput OPTModel::forward(const PreparedInputs& inputs) const {
  at::Tensor x_BTD = embed(inputs, decoder_.embed_tokens);
  if (decoder_.project_in) x_BTD = (*decoder_.project_in)(x_BTD);
  x_BTD = x_BTD + decoder_.embed_positions(inputs.position_ids + kPositionOffset);
  const auto finish = [&](const at::Tensor& x) {
    const at::Tensor normed = decoder_.final_layer_norm ? (*decoder_.final_layer_norm)(x) : x;
    return decoder_.project_out ? (*decoder_.project_out)(normed) : normed;
  };
  return run_decoder(*this, inputs, x_BTD, decoder_.layers, finish);
}

}  // namespace easydel
