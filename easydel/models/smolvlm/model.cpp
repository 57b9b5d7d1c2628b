// Letters: B images, D hidden.
#include "easydel/models/smolvlm/model.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

// [B, rows, columns]: patches with a pixel that is no padding.
at::Tensor patches_of(const PreparedInputs& inputs, int64_t patch) {
  const at::Tensor& pixels = inputs.pixel_values;
  const int64_t rows = pixels.size(2) / patch, columns = pixels.size(3) / patch;
  const auto flags = at::TensorOptions(at::kBool).device(pixels.device());
  if (!inputs.pixel_attention_mask.defined()) return at::ones({pixels.size(0), rows, columns}, flags);
  const at::Tensor mask = inputs.pixel_attention_mask.to(pixels.device());
  require<ShapeError>(mask.dim() == 3 && mask.size(0) == pixels.size(0) && mask.size(1) == pixels.size(2) &&
                          mask.size(2) == pixels.size(3),
                      "[forward] pixel_attention_mask must be [", pixels.size(0), ", ", pixels.size(2), ", ",
                      pixels.size(3), "]; got ", mask.sizes(), ".");
  const at::Tensor cut = mask.ne(0).narrow(1, 0, rows * patch).narrow(2, 0, columns * patch);
  return cut.reshape({-1, rows, patch, columns, patch}).permute({0, 1, 3, 2, 4}).flatten(3).any(-1);
}

}  // namespace

SmolVLMVisionEmbeddings::SmolVLMVisionEmbeddings(const SmolVLMVisionConfig& c)
    : side_(c.image_size / c.patch_size),
      channels_(c.num_channels),
      patch_(c.patch_size),
      patch_embedding_(add<PatchProjection>("patch_embedding", c.num_channels, c.patch_size, c.hidden_size,
                                            /*bias=*/true, c.initializer_range)),
      position_embedding_(add<Embedding>("position_embedding", c.num_patches(), c.hidden_size, c.initializer_range)) {}

at::Tensor SmolVLMVisionEmbeddings::operator()(const at::Tensor& pixels, const at::Tensor& is_patch) const {
  require<ShapeError>(pixels.size(1) == channels_, "[forward] pixel_values must have ", channels_,
                      " channels (num_channels); got ", pixels.size(1), ".");
  require<ShapeError>(pixels.size(2) >= patch_ && pixels.size(3) >= patch_, "[forward] pixel_values must have a patch ",
                      "of ", patch_, " x ", patch_, "; got ", pixels.size(2), " x ", pixels.size(3), ".");
  const auto numbers = at::TensorOptions(at::kFloat).device(pixels.device());
  const double step = 1.0 / static_cast<double>(side_);
  const at::Tensor borders = at::arange(step, 1.0, step, numbers);
  // The place in the table of each row, or column, of an image that has `count` of them.
  const auto places = [&](const at::Tensor& count, int64_t most) {
    const at::Tensor shares = at::arange(most, numbers).unsqueeze(0) * count.reciprocal().unsqueeze(1);
    return at::bucketize(shares.clamp_max(1.0 - 1e-6), borders, /*out_int32=*/false, /*right=*/true);
  };
  const at::Tensor rows = places(is_patch.select(2, 0).sum(1), is_patch.size(1));
  const at::Tensor columns = places(is_patch.select(1, 0).sum(1), is_patch.size(2));
  const at::Tensor ids = (rows.unsqueeze(2) * side_ + columns.unsqueeze(1)).masked_fill(is_patch.logical_not(), 0);
  return patch_embedding_.patches(pixels.to(dtype())) + position_embedding_(ids.flatten(1));
}

SmolVLMVisionTransformer::SmolVLMVisionTransformer(const SmolVLMVisionConfig& c)
    : ImageModule(c),
      patch_(c.patch_size),
      embeddings_(add<SmolVLMVisionEmbeddings>("embeddings", c)),
      encoder_(add<Encoder>("encoder", c)),
      post_layernorm_(
          *add_norm(*this, "post_layernorm", c.hidden_size, {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps})) {}

void SmolVLMVisionTransformer::prepare_whole(PreparedInputs& inputs) const {
  require<NotSupportedError>(!inputs.pixel_attention_mask.defined() || !parallel() || parallel()->is_single(),
                             "[SmolVLMVisionTransformer] pixel_attention_mask is not split over a mesh. Use one "
                             "device, or the tower inside of smolvlm.");
}

ModelOutput SmolVLMVisionTransformer::forward(const PreparedInputs& given) const {
  PreparedInputs inputs = image_inputs(given);
  const at::Tensor is_patch = patches_of(given, patch_);
  if (given.pixel_attention_mask.defined() && !is_patch.all().item<bool>()) {
    const at::Tensor seen = is_patch.flatten(1);  // padding is not seen, but sees
    inputs.mask_info->explicit_mask =
        seen.unsqueeze(1).unsqueeze(1).expand({seen.size(0), 1, seen.size(1), seen.size(1)});
  }
  ModelOutput out = run_encoder(*this, inputs, embeddings_(given.pixel_values, is_patch), encoder_.layers());
  out.last_hidden_state = post_layernorm_(out.last_hidden_state);
  return out;
}

SmolVLMSimpleMLP::SmolVLMSimpleMLP(const SmolVLMConfig& c)
    : proj_(add<Linear>("proj", c.vision_config->hidden_size * c.scale_factor * c.scale_factor,
                        c.text_config->hidden_size, LinearOptions{.bias = false})) {}

SmolVLMConnector::SmolVLMConnector(const SmolVLMConfig& c)
    : scale_(c.scale_factor), modality_projection_(add<SmolVLMSimpleMLP>("modality_projection", c)) {}

at::Tensor SmolVLMConnector::operator()(const at::Tensor& patches) const {
  const int64_t count = patches.size(1), side = std::llround(std::sqrt(static_cast<double>(count)));
  require<ShapeError>(
      side * side == count && side % scale_ == 0,
      "[SmolVLMModel] an image must have as many rows of patches as columns, a multiple of scale_factor ", scale_,
      "; got ", count, " patches.");
  const at::Tensor squares = patches.unflatten(1, {side / scale_, scale_, side / scale_, scale_})
                                 .permute({0, 1, 3, 2, 4, 5})
                                 .reshape({patches.size(0), count / (scale_ * scale_), -1});
  return modality_projection_(squares);
}

SmolVLMModel::SmolVLMModel(const SmolVLMConfig& c) : ImageTextModel(c, {.image_token = c.image_token_id}) {
  add_tower("vision_model", c.vision_config);
  connector_ = &add<SmolVLMConnector>("connector", c);
  add_decoder("text_model", c.text_config);
}

void SmolVLMModel::prepare_whole(PreparedInputs& inputs) const {
  at::Tensor &pixels = inputs.pixel_values, &mask = inputs.pixel_attention_mask;
  if (pixels.defined() && pixels.dim() == 5) {
    require<ShapeError>(
        !mask.defined() || (mask.dim() == 4 && mask.size(0) == pixels.size(0) && mask.size(1) == pixels.size(1)),
        "[forward] pixel_attention_mask must be [", pixels.size(0), ", ", pixels.size(1),
        ", height, width], as pixel_values are; got ", mask.defined() ? mask.sizes() : at::IntArrayRef(), ".");
    pixels = pixels.flatten(0, 1);
    const at::Tensor is_image = pixels.flatten(1).ne(0).any(1);
    if (!is_image.any().item<bool>()) is_image[0].fill_(true);  // as transformers
    const at::Tensor kept = is_image.nonzero().squeeze(1);
    pixels = pixels.index_select(0, kept);
    if (mask.defined()) mask = mask.flatten(0, 1).to(kept.device()).index_select(0, kept);
  }
  ImageTextModel::prepare_whole(inputs);
}

at::Tensor SmolVLMModel::image_features(const PreparedInputs& given) const {
  PreparedInputs inputs = tower_inputs(given);
  inputs.output_hidden_states = false;
  return (*connector_)(tower().forward(inputs).last_hidden_state);
}

SmolVLMForConditionalGeneration::SmolVLMForConditionalGeneration(const SmolVLMConfig& c) : ImageTextModule(c) {
  set_model(add<SmolVLMModel>("model", c), {}, {});
}

}  // namespace easydel
