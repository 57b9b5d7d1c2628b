#include "easydel/models/dinov2/model.h"

#include <ATen/ATen.h>

#include "easydel/infra/decoder/decoder.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

NormSpec norm_of(const Dinov2Config& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

AttentionSpec attention_of(const Dinov2Config& c, int64_t layer_idx) {
  AttentionSpec spec = encoder_block_spec(c, layer_idx).attention;
  spec.out_name = "o_proj";
  return spec;
}

MlpSpec mlp_of(const Dinov2Config& c) {
  MlpSpec spec = encoder_block_spec(c, 0).mlp;
  if (!c.use_swiglu_ffn) return spec;
  spec.act = "silu";
  spec.gated = spec.fused_gate_up = true;
  spec.gate_up_name = "weights_in";
  spec.down_name = "weights_out";
  return spec;
}

}  // namespace

Dinov2LayerScale::Dinov2LayerScale(const Dinov2Config& c)
    : lambda1_(add_parameter("lambda1", {Dim(c.hidden_size)}, {Initializer::Kind::Constant, c.layerscale_value})) {}

at::Tensor Dinov2LayerScale::operator()(const at::Tensor& x) const {
  return x * collectives::gather_weight(lambda1_->value(), x.scalar_type(), lambda1_->sharding());
}

Dinov2Layer::Dinov2Layer(const Dinov2Config& c, int64_t layer_idx)
    : norm1_(*add_norm(*this, "norm1", c.hidden_size, norm_of(c))),
      attention_(add<Attention>("attention", attention_of(c, layer_idx))),
      layer_scale1_(add<Dinov2LayerScale>("layer_scale1", c)),
      norm2_(*add_norm(*this, "norm2", c.hidden_size, norm_of(c))),
      mlp_(add<MLP>("mlp", mlp_of(c))),
      layer_scale2_(add<Dinov2LayerScale>("layer_scale2", c)) {}

LayerOutput Dinov2Layer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Attention::Output attended = attention_(norm1_(x_BTD), ctx);
  const at::Tensor h_BTD = x_BTD + layer_scale1_(attended.hidden);
  return {.hidden = h_BTD + layer_scale2_(mlp_(norm2_(h_BTD))), .attention_weights = attended.weights};
}

Dinov2Encoder::Dinov2Encoder(const Dinov2Config& c) : layer_(add<ModuleList<Dinov2Layer>>("layer")) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer_.append(c, i);
  rename_in_files(*this, {{".attention.q_proj.", ".attention.attention.query."},
                          {".attention.k_proj.", ".attention.attention.key."},
                          {".attention.v_proj.", ".attention.attention.value."},
                          {".attention.o_proj.", ".attention.output.dense."}});
}

Dinov2Model::Dinov2Model(const Dinov2Config& c)
    : ImageModule(c),
      embeddings_(add<VisionEmbeddings>("embeddings", c,
                                        VisionEmbeddingsSpec{.patch_name = "patch_embeddings.projection",
                                                             .patch_bias = true,
                                                             .class_name = "cls_token",
                                                             .position_name = "position_embeddings",
                                                             .leading_ones = true,
                                                             .mask_token = c.use_mask_token,
                                                             .any_size = true})),
      encoder_(add<Dinov2Encoder>("encoder", c)),
      layernorm_(*add_norm(*this, "layernorm", c.hidden_size, norm_of(c))) {}

ModelOutput Dinov2Model::forward(const PreparedInputs& given) const {
  const PreparedInputs inputs = image_inputs(given);
  const auto& c = dynamic_cast<const Dinov2Config&>(config());
  ModelOutput out =
      run_encoder(*this, inputs, drop_embeddings(embeddings_(inputs), c.hidden_dropout, inputs), encoder_.layers());
  out.last_hidden_state = layernorm_(out.last_hidden_state);
  out.pooler_output = out.last_hidden_state.select(1, 0);
  return out;
}

Dinov2ForImageClassification::Dinov2ForImageClassification(const Dinov2Config& c)
    : ImageClassificationModule(c, "dinov2") {
  add_head(add<Dinov2Model>("dinov2", c), 2 * c.hidden_size, c.initializer_range);
}

at::Tensor Dinov2ForImageClassification::pooled(const at::Tensor& hidden) const {
  return at::cat({hidden.select(1, 0), hidden.narrow(1, 1, hidden.size(1) - 1).mean(1)}, 1);
}

}  // namespace easydel
