#include "easydel/models/siglip/model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

NormSpec siglip_norm(const EncoderConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

template <class C>
C inner(const SubConfig& sub, const BaseConfig& parent) {
  sub.as<C>();
  return dynamic_cast<const C&>(*sub.under(parent));
}

at::Tensor whole(const Parameter& parameter, const Module& module) {
  return collectives::gather_weight(parameter.value(), module.dtype(), parameter.sharding());
}

}  // namespace

SiglipTextModel::SiglipTextModel(const SiglipTextConfig& c)
    : BaseModule(c),
      embeddings_(add<TextEmbeddings>("embeddings", c)),
      encoder_(add<Encoder>("encoder", c)),
      final_layer_norm_(*add_norm(*this, "final_layer_norm", c.hidden_size, siglip_norm(c))),
      head_(
          add<Linear>("head", c.hidden_size, c.projection_size.value_or(c.hidden_size), LinearOptions{.bias = true})) {}

void SiglipTextModel::prepare_whole(PreparedInputs& inputs) const {
  require<ConfigError>(inputs.input_ids.defined(), "[", type_name(), "] input_ids are needed.");
  require<NotSupportedError>(!inputs.past_key_values, "[", type_name(), "] does not support a cache.");
  inputs.mask_info->causal = false;
  inputs.mask_info->memory = MaskInfo::make_memory();
  // The last one, be it padding or not.
  inputs.last_tokens =
      at::full({inputs.input_ids.size(0)}, inputs.input_ids.size(1) - 1, inputs.input_ids.options().dtype(at::kLong));
}

ModelOutput SiglipTextModel::forward(const PreparedInputs& inputs) const {
  ModelOutput out = run_encoder(*this, inputs, embeddings_(inputs), encoder_.layers());
  out.last_hidden_state = final_layer_norm_(out.last_hidden_state);
  out.pooler_output = pick_tokens(*this, out.last_hidden_state, inputs, &head_);
  return out;
}

SiglipPoolingAttention::SiglipPoolingAttention(const SiglipVisionConfig& c)
    : heads_(c.num_attention_heads),
      in_weight_(add_parameter("in_proj_weight", {Dim(3 * c.hidden_size), Dim(c.hidden_size)},
                               Initializer::normal(c.initializer_range))),
      in_bias_(add_parameter("in_proj_bias", {Dim(3 * c.hidden_size)}, Initializer::zeros())),
      out_(add<Linear>("out_proj", c.hidden_size, c.hidden_size, LinearOptions{.bias = true})) {}

at::Tensor SiglipPoolingAttention::operator()(const at::Tensor& query_B1D, const at::Tensor& hidden_BTD) const {
  const std::vector<at::Tensor> weights = whole(*in_weight_, *this).chunk(3);
  const std::vector<at::Tensor> biases = whole(*in_bias_, *this).chunk(3);
  const auto project = [&](const at::Tensor& x, std::size_t i) {
    return at::linear(x, weights[i], biases[i]).unflatten(-1, {heads_, -1});
  };
  operations::AttentionOptions options;
  options.mask.causal = false;
  const at::Tensor out =
      operations::attention(project(query_B1D, 0), project(hidden_BTD, 1), project(hidden_BTD, 2), options).out;
  return out_(out.flatten(-2));
}

SiglipMultiheadAttentionPoolingHead::SiglipMultiheadAttentionPoolingHead(const SiglipVisionConfig& c)
    : probe_(add_parameter("probe", {Dim(1), Dim(1), Dim(c.hidden_size)}, Initializer::normal(c.initializer_range))),
      attention_(add<SiglipPoolingAttention>("attention", c)),
      layernorm_(*add_norm(*this, "layernorm", c.hidden_size, siglip_norm(c))),
      mlp_(add<MLP>("mlp", encoder_block_spec(c, 0).mlp)) {}

at::Tensor SiglipMultiheadAttentionPoolingHead::operator()(const at::Tensor& hidden_BTD) const {
  const at::Tensor probe = whole(*probe_, *this).expand({hidden_BTD.size(0), 1, hidden_BTD.size(2)});
  const at::Tensor x_B1D = attention_(probe, hidden_BTD);
  return (x_B1D + mlp_(layernorm_(x_B1D))).select(1, 0);
}

SiglipVisionModel::SiglipVisionModel(const SiglipVisionConfig& c)
    : ImageModule(c),
      embeddings_(add<VisionEmbeddings>("embeddings", c, VisionEmbeddingsSpec{.patch_bias = true, .class_name = ""})),
      encoder_(add<Encoder>("encoder", c)),
      post_layernorm_(*add_norm(*this, "post_layernorm", c.hidden_size, siglip_norm(c))) {
  if (c.vision_use_head) head_ = &add<SiglipMultiheadAttentionPoolingHead>("head", c);
}

ModelOutput SiglipVisionModel::forward(const PreparedInputs& given) const {
  const PreparedInputs inputs = image_inputs(given);
  ModelOutput out = run_encoder(*this, inputs, embeddings_(inputs), encoder_.layers());
  out.last_hidden_state = post_layernorm_(out.last_hidden_state);
  if (head_) out.pooler_output = (*head_)(out.last_hidden_state);
  return out;
}

SiglipModel::SiglipModel(const SiglipConfig& c)
    : TwoTowerModule(c),
      text_model_(add<SiglipTextModel>("text_model", inner<SiglipTextConfig>(c.text_config, c))),
      vision_model_(add<SiglipVisionModel>("vision_model", inner<SiglipVisionConfig>(c.vision_config, c))),
      logit_scale_(add_parameter("logit_scale", {Dim(1)}, Initializer::zeros())),
      logit_bias_(add_parameter("logit_bias", {Dim(1)}, Initializer::zeros())) {
  require<ConfigError>(c.vision_config.as<SiglipVisionConfig>().vision_use_head, "[", type_name(),
                       "] vision_use_head must be true: its output is compared with texts.");
}

TwoTowerModule::Similarity SiglipModel::similarity() const {
  return {.scale = whole(*logit_scale_, *this), .bias = whole(*logit_bias_, *this), .loss = ContrastiveLoss::Sigmoid};
}

at::Tensor SiglipModel::texts_of(const PreparedInputs& inputs) const {
  return text_model_.forward(inputs).pooler_output;
}

at::Tensor SiglipModel::images_of(const PreparedInputs& inputs) const {
  return vision_model_.forward(inputs).pooler_output;
}

SiglipForImageClassification::SiglipForImageClassification(const SiglipConfig& c)
    : ImageClassificationModule(c, "vision_model") {
  add_head(add<SiglipVisionModel>("vision_model", inner<SiglipVisionConfig>(c.vision_config, c)),
           c.vision_config->hidden_size, c.initializer_range);
}

}  // namespace easydel
