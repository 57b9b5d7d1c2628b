#include "easydel/models/clip/model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

NormSpec clip_norm(const EncoderConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

CLIPTextConfig text_of(const CLIPConfig& c) {
  c.text_config.as<CLIPTextConfig>();
  return dynamic_cast<const CLIPTextConfig&>(*c.text_config.under(c));
}
CLIPVisionConfig vision_of(const CLIPConfig& c) {
  c.vision_config.as<CLIPVisionConfig>();
  return dynamic_cast<const CLIPVisionConfig&>(*c.vision_config.under(c));
}

}  // namespace

CLIPTextModel::CLIPTextModel(const CLIPTextConfig& c)
    : BaseModule(c),
      embeddings_(add<TextEmbeddings>("embeddings", c)),
      encoder_(add<Encoder>("encoder", c)),
      final_layer_norm_(*add_norm(*this, "final_layer_norm", c.hidden_size, clip_norm(c))) {}

void CLIPTextModel::prepare_whole(PreparedInputs& inputs) const {
  require<ConfigError>(inputs.input_ids.defined(), "[", type_name(), "] input_ids are needed to find the end of ",
                       "each text; inputs_embeds are not supported.");
  require<NotSupportedError>(!inputs.past_key_values, "[", type_name(), "] does not support a cache.");
  const TokenIds& end = config().eos_token_id;
  const at::Tensor ids = inputs.input_ids;
  // Files from before the id was right say 2, and mean the largest.
  const bool largest = end.size() == 1 && *end.begin() == 2;
  if (largest) {
    inputs.last_tokens = ids.argmax(-1);
    return;
  }
  require<ConfigError>(end.size() == 1, "[", type_name(), "] eos_token_id must be one id; got ", end.size(), ".");
  inputs.last_tokens = ids.eq(*end.begin()).to(at::kInt).argmax(-1);
}

ModelOutput CLIPTextModel::forward(const PreparedInputs& inputs) const {
  ModelOutput out = run_encoder(*this, inputs, embeddings_(inputs), encoder_.layers());
  out.last_hidden_state = final_layer_norm_(out.last_hidden_state);
  out.pooler_output = pick_tokens(*this, out.last_hidden_state, inputs);
  return out;
}

CLIPVisionModel::CLIPVisionModel(const CLIPVisionConfig& c)
    : ImageModule(c),
      embeddings_(add<VisionEmbeddings>("embeddings", c, VisionEmbeddingsSpec{})),
      pre_layrnorm_(*add_norm(*this, "pre_layrnorm", c.hidden_size, clip_norm(c))),
      encoder_(add<Encoder>("encoder", c)),
      post_layernorm_(*add_norm(*this, "post_layernorm", c.hidden_size, clip_norm(c))) {}

ModelOutput CLIPVisionModel::forward(const PreparedInputs& given) const {
  const PreparedInputs inputs = image_inputs(given);
  ModelOutput out = run_encoder(*this, inputs, pre_layrnorm_(embeddings_(inputs)), encoder_.layers());
  out.pooler_output = post_layernorm_(out.last_hidden_state.select(1, 0));
  return out;
}

CLIPTextModelWithProjection::CLIPTextModelWithProjection(const CLIPTextConfig& c)
    : BaseModule(c),
      text_model_(add<CLIPTextModel>("text_model", c)),
      text_projection_(add<Linear>("text_projection", c.hidden_size, c.projection_dim,
                                   LinearOptions{.init_stddev = c.initializer_range})) {}

ModelOutput CLIPTextModelWithProjection::forward(const PreparedInputs& inputs) const {
  ModelOutput out = text_model_.forward(inputs);
  out.text_embeds = pick_tokens(*this, out.last_hidden_state, inputs, &text_projection_);
  out.pooler_output.reset();
  return out;
}

CLIPVisionModelWithProjection::CLIPVisionModelWithProjection(const CLIPVisionConfig& c)
    : ImageModule(c),
      vision_model_(add<CLIPVisionModel>("vision_model", c)),
      visual_projection_(add<Linear>("visual_projection", c.hidden_size, c.projection_dim,
                                     LinearOptions{.init_stddev = c.initializer_range})) {}

ModelOutput CLIPVisionModelWithProjection::forward(const PreparedInputs& inputs) const {
  ModelOutput out = vision_model_.forward(inputs);
  out.image_embeds = visual_projection_(out.pooler_output);
  out.pooler_output.reset();
  return out;
}

CLIPModel::CLIPModel(const CLIPConfig& c)
    : TwoTowerModule(c),
      text_model_(add<CLIPTextModel>("text_model", text_of(c))),
      vision_model_(add<CLIPVisionModel>("vision_model", vision_of(c))),
      visual_projection_(add<Linear>("visual_projection", c.vision_config->hidden_size, c.projection_dim,
                                     LinearOptions{.init_stddev = c.initializer_range})),
      text_projection_(add<Linear>("text_projection", c.text_config->hidden_size, c.projection_dim,
                                   LinearOptions{.init_stddev = c.initializer_range})),
      logit_scale_(add_parameter("logit_scale", {}, {Initializer::Kind::Constant, c.logit_scale_init_value})) {}

TwoTowerModule::Similarity CLIPModel::similarity() const {
  return {.scale = collectives::gather_weight(logit_scale_->value(), dtype(), logit_scale_->sharding())};
}

at::Tensor CLIPModel::texts_of(const PreparedInputs& inputs) const {
  return text_projection_(text_model_.forward(inputs).pooler_output);
}

at::Tensor CLIPModel::images_of(const PreparedInputs& inputs) const {
  return visual_projection_(vision_model_.forward(inputs).pooler_output);
}

CLIPForImageClassification::CLIPForImageClassification(const CLIPConfig& c)
    : ImageClassificationModule(c, "vision_model") {
  add_head(add<CLIPVisionModel>("vision_model", vision_of(c)), c.vision_config->hidden_size, c.initializer_range);
}

at::Tensor CLIPForImageClassification::pooled(const at::Tensor& hidden) const {
  return hidden.narrow(1, 1, hidden.size(1) - 1).mean(1);
}

}  // namespace easydel
