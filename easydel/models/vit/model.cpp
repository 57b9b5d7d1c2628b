#include "easydel/models/vit/model.h"

#include <ATen/ATen.h>

#include "easydel/infra/decoder/decoder.h"

namespace easydel {
namespace {

BlockSpec vit_spec(const ViTConfig& c, int64_t layer_idx) {
  BlockSpec spec = encoder_block_spec(c, layer_idx);
  spec.attention_name = "attention";
  spec.attention.out_name = "o_proj";
  spec.before_attention = "layernorm_before";
  spec.before_mlp = "layernorm_after";
  return spec;
}

}  // namespace

ViTLayer::ViTLayer(const ViTConfig& config, int64_t layer_idx) : DecoderBlock(vit_spec(config, layer_idx)) {}

ViTPooler::ViTPooler(const ViTConfig& c)
    : dense_(add<Linear>("dense", c.hidden_size, c.pooler_output_size.value_or(c.hidden_size),
                         LinearOptions{.bias = true, .init_stddev = c.initializer_range})),
      act_(operations::find_activation(c.pooler_act)) {}

at::Tensor ViTPooler::operator()(const at::Tensor& hidden) const { return act_(dense_(hidden.select(1, 0))); }

ViTModel::ViTModel(const ViTConfig& c, bool pools)
    : ImageModule(c),
      embeddings_(add<VisionEmbeddings>("embeddings", c,
                                        VisionEmbeddingsSpec{.patch_name = "patch_embeddings.projection",
                                                             .patch_bias = true,
                                                             .class_name = "cls_token",
                                                             .position_name = "position_embeddings",
                                                             .leading_ones = true})),
      layers_(add<ModuleList<ViTLayer>>("layers")),
      layernorm_(*add_norm(*this, "layernorm", c.hidden_size, {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps})) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, i);
  if (pools) pooler_ = &add<ViTPooler>("pooler", c);
  rename_in_files(layers_, {{"layers.", "encoder.layer."},
                            {".attention.q_proj.", ".attention.attention.query."},
                            {".attention.k_proj.", ".attention.attention.key."},
                            {".attention.v_proj.", ".attention.attention.value."},
                            {".attention.o_proj.", ".attention.output.dense."},
                            {".mlp.fc1.", ".intermediate.dense."},
                            {".mlp.fc2.", ".output.dense."}});
}

ModelOutput ViTModel::forward(const PreparedInputs& given) const {
  const PreparedInputs inputs = image_inputs(given);
  const auto& c = dynamic_cast<const ViTConfig&>(config());
  const at::Tensor x_BTD = drop_embeddings(embeddings_(inputs), c.hidden_dropout, inputs);
  ModelOutput out = run_encoder(*this, inputs, x_BTD, {layers_.begin(), layers_.end()});
  out.last_hidden_state = layernorm_(out.last_hidden_state);
  if (pooler_) out.pooler_output = (*pooler_)(out.last_hidden_state);
  return out;
}

ViTForImageClassification::ViTForImageClassification(const ViTConfig& c) : ImageClassificationModule(c, "vit") {
  add_head(add<ViTModel>("vit", c, /*pools=*/false), c.hidden_size, c.initializer_range);
}

}  // namespace easydel
