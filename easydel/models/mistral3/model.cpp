#include "easydel/models/mistral3/model.h"

#include <ATen/ATen.h>

#include "easydel/models/pixtral/config.h"

namespace easydel {

Mistral3PatchMerger::Mistral3PatchMerger(const Mistral3Config& c)
    : side_(c.spatial_merge_size),
      merging_layer_(add<Linear>("merging_layer", c.vision_config->hidden_size * side_ * side_,
                                 c.vision_config->hidden_size, LinearOptions{.bias = false})) {}

at::Tensor Mistral3PatchMerger::operator()(const at::Tensor& patches, const std::vector<ImageGrid>& grids) const {
  std::vector<at::Tensor> squares;
  int64_t first = 0;
  for (const ImageGrid& grid : grids) {
    const int64_t rows = grid.rows / side_, columns = grid.columns / side_;
    const at::Tensor own = patches.narrow(0, first, grid.patches())
                               .view({grid.rows, grid.columns, -1})
                               .narrow(0, 0, rows * side_)
                               .narrow(1, 0, columns * side_);
    squares.push_back(own.reshape({rows, side_, columns, side_, own.size(2)})
                          .permute({0, 2, 4, 1, 3})
                          .reshape({rows * columns, own.size(2) * side_ * side_}));
    first += grid.patches();
  }
  return merging_layer_(at::cat(squares));
}

Mistral3MultiModalProjector::Mistral3MultiModalProjector(const Mistral3Config& c)
    : norm_(
          *add_norm(*this, "norm", c.vision_config->hidden_size, {.eps = c.text_config.as<DecoderConfig>().norm_eps})),
      patch_merger_(add<Mistral3PatchMerger>("patch_merger", c)),
      linear_1_(add<Linear>("linear_1", c.vision_config->hidden_size, c.text_config->hidden_size,
                            LinearOptions{.bias = c.multimodal_projector_bias})),
      linear_2_(add<Linear>("linear_2", c.text_config->hidden_size, c.text_config->hidden_size,
                            LinearOptions{.bias = c.multimodal_projector_bias})),
      act_(operations::find_activation(c.projector_hidden_act)) {}

at::Tensor Mistral3MultiModalProjector::operator()(const at::Tensor& patches,
                                                   const std::vector<ImageGrid>& grids) const {
  return linear_2_(act_(linear_1_(patch_merger_(norm_(patches), grids))));
}

Mistral3Model::Mistral3Model(const Mistral3Config& c)
    : ImageTextModel(c, {.image_token = c.image_token_index}),
      layer_(c.feature_layer()),
      patch_(c.vision_config.as<PixtralVisionConfig>().patch_size) {
  add_tower("vision_tower", c.vision_config);
  projector_ = &add<Mistral3MultiModalProjector>("multi_modal_projector", c);
  add_decoder("language_model", c.text_config);
}

at::Tensor Mistral3Model::image_features(const PreparedInputs& given) const {
  const PreparedInputs inputs = tower_inputs(given);
  const std::vector<at::Tensor> states = tower().forward(inputs).hidden_states;
  const auto count = static_cast<int64_t>(states.size());
  const at::Tensor& state = states[static_cast<std::size_t>(layer_ < 0 ? layer_ + count : layer_)];
  return (*projector_)(state.squeeze(0), patch_grids(inputs, patch_));
}

}  // namespace easydel
