// What keys of the configs of images do that no comparison of loaded models shows.
#include <gmock/gmock.h>

#include "easydel/infra/base_module.h"
#include "easydel/models/models.h"
#include "tests/support/probe.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

template <class C>
C small() {
  C config;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.image_size = 8;
  config.patch_size = 4;
  config.initializer_range = 0.3;
  return config;
}

at::Tensor pooled(const BaseModule& model, bool training) {
  ModelInputs inputs{.pixel_values = at::ones({2, 3, 8, 8})};
  if (training) inputs.dropout_key = RandomKey(3);
  return model(inputs).pooler_output;
}

template <class M, class C>
bool drops(const C& config) {
  const auto model = make_model<M>(config);
  return !at::equal(pooled(*model, true), pooled(*model, false));
}

PROBE(EncoderConfig, attention_dropout) {
  auto config = small<ViTConfig>();
  EXPECT_FALSE(drops<ViTModel>(config));
  config.attention_dropout = 0.5;
  EXPECT_TRUE(drops<ViTModel>(config));
}

PROBE(EncoderConfig, hidden_dropout) {
  auto config = small<ViTConfig>();
  config.hidden_dropout = 0.5;
  EXPECT_TRUE(drops<ViTModel>(config));
}

PROBE(CLIPConfig, logit_scale_init_value) {
  CLIPConfig config;
  CLIPTextConfig text;
  text.vocab_size = 20;
  text.hidden_size = text.intermediate_size = 16;
  text.num_attention_heads = 4;
  text.num_hidden_layers = 1;
  config.text_config = SubConfig(text);
  config.vision_config = SubConfig(small<CLIPVisionConfig>());
  config.logit_scale_init_value = 1.25;
  EXPECT_EQ(make_model<CLIPModel>(config)->params().at("logit_scale").item<float>(), 1.25);
}

PROBE(Dinov2Config, layerscale_value) {
  auto config = small<Dinov2Config>();
  config.layerscale_value = 0.25;
  config.post_init();
  const auto model = make_model<Dinov2Model>(config);
  EXPECT_EQ(model->params().at("encoder.layer.1.layer_scale2.lambda1")[3].item<float>(), 0.25);
}

PROBE(Dinov2Config, drop_path_rate) {
  auto config = small<Dinov2Config>();
  config.drop_path_rate = 0.1;
  EXPECT_THAT([&] { config.validate(); },
              ThrowsMessage<NotSupportedError>(
                  "[Dinov2Config] drop_path_rate must be 0: stochastic depth is not supported; got 0.1."));
}

}  // namespace
}  // namespace easydel
