#include "easydel/models/llava/model.h"

#include <ATen/ATen.h>

namespace easydel {

LlavaMultiModalProjector::LlavaMultiModalProjector(const LlavaConfig& c)
    : linear_1_(add<Linear>("linear_1", c.vision_config->hidden_size * static_cast<int64_t>(c.feature_layers().size()),
                            c.text_config->hidden_size, LinearOptions{.bias = c.multimodal_projector_bias})),
      linear_2_(add<Linear>("linear_2", c.text_config->hidden_size, c.text_config->hidden_size,
                            LinearOptions{.bias = c.multimodal_projector_bias})),
      act_(operations::find_activation(c.projector_hidden_act)) {}

at::Tensor LlavaMultiModalProjector::operator()(const at::Tensor& features) const {
  return linear_2_(act_(linear_1_(features)));
}

LlavaModel::LlavaModel(const LlavaConfig& c)
    : ImageTextModel(c, {.image_token = c.image_token_index}),
      layers_(c.feature_layers()),
      drops_first_(c.vision_feature_select_strategy == "default") {
  add_tower("vision_tower", c.vision_config);
  projector_ = &add<LlavaMultiModalProjector>("multi_modal_projector", c);
  add_decoder("language_model", c.text_config);
}

at::Tensor LlavaModel::image_features(const PreparedInputs& given) const {
  const std::vector<at::Tensor> states = tower().forward(tower_inputs(given)).hidden_states;
  const auto count = static_cast<int64_t>(states.size());
  std::vector<at::Tensor> chosen;
  for (const int64_t layer : layers_) {
    const at::Tensor& state = states[static_cast<std::size_t>(layer < 0 ? layer + count : layer)];
    chosen.push_back(drops_first_ ? state.narrow(1, 1, state.size(1) - 1) : state);
  }
  return (*projector_)(chosen.size() == 1 ? chosen[0] : at::cat(chosen, -1)).flatten(0, 1);
}

}  // namespace easydel
