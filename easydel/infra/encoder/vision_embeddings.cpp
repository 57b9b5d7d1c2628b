#include "easydel/infra/encoder/vision_embeddings.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

PatchProjection::PatchProjection(int64_t channels, int64_t patch, int64_t hidden, bool bias, double init_stddev)
    : Linear(channels * patch * patch, hidden, {.bias = bias, .init_stddev = init_stddev, .name = "patches"}),
      channels_(channels),
      patch_(patch) {
  weight()->file_layout = [=](const std::string& path) -> FileLayout {
    return {FilePiece{path, {0, 0}, {hidden, channels * patch * patch}, {hidden, channels, patch, patch}}};
  };
}

at::Tensor PatchProjection::patches(const at::Tensor& pixels) const {
  const int64_t rows = pixels.size(2) / patch_, columns = pixels.size(3) / patch_;
  const at::Tensor cut = pixels.narrow(2, 0, rows * patch_).narrow(3, 0, columns * patch_);
  const at::Tensor grid = cut.reshape({pixels.size(0), channels_, rows, patch_, columns, patch_});
  return (*this)(grid.permute({0, 2, 4, 1, 3, 5}).reshape({pixels.size(0), rows * columns, -1}));
}

VisionEmbeddings::VisionEmbeddings(const VisionEncoderConfig& c, VisionEmbeddingsSpec spec)
    : spec_(std::move(spec)),
      hidden_(c.hidden_size),
      channels_(c.num_channels),
      image_(c.image_size),
      patch_(c.patch_size),
      projection_(add<PatchProjection>(spec_.patch_name, c.num_channels, c.patch_size, c.hidden_size, spec_.patch_bias,
                                       c.initializer_range)) {
  const Initializer drawn = Initializer::normal(c.initializer_range);
  const int64_t tokens = c.num_patches() + (spec_.class_name.empty() ? 0 : 1);
  const auto shape = [&](std::vector<Dim> dims, std::size_t ones) {
    if (spec_.leading_ones) dims.insert(dims.begin(), ones, Dim(1));
    return dims;
  };
  if (!spec_.class_name.empty()) class_token_ = add_parameter(spec_.class_name, shape({Dim(hidden_)}, 2), drawn);
  if (spec_.mask_token) mask_token_ = add_parameter("mask_token", {Dim(1), Dim(hidden_)}, Initializer::zeros());
  positions_ = add_parameter(spec_.position_name, shape({Dim(tokens), Dim(hidden_)}, 1), drawn);
}

at::Tensor VisionEmbeddings::value_of(const Parameter& parameter) const {
  return collectives::gather_weight(parameter.value(), dtype(), parameter.sharding());
}

at::Tensor VisionEmbeddings::positions(int64_t height, int64_t width, bool interpolate) const {
  const at::Tensor all = value_of(*positions_).view({-1, hidden_});
  const int64_t classes = spec_.class_name.empty() ? 0 : 1;
  const int64_t rows = height / patch_, columns = width / patch_, known = all.size(0) - classes;
  if (!interpolate || (rows * columns == known && height == width)) return all;
  const auto edge = static_cast<int64_t>(std::sqrt(static_cast<double>(known)));
  const at::Tensor grid = all.narrow(0, classes, known).view({1, edge, edge, hidden_}).permute({0, 3, 1, 2});
  const std::vector<int64_t> size{rows, columns};
  const at::Tensor wide = grid.to(at::promote_types(grid.scalar_type(), at::kFloat));
  const at::Tensor resized = at::upsample_bicubic2d(wide, size, /*align_corners=*/false).to(all.scalar_type());
  const at::Tensor patches = resized.permute({0, 2, 3, 1}).reshape({-1, hidden_});
  return classes == 0 ? patches : at::cat({all.narrow(0, 0, classes), patches});
}

at::Tensor VisionEmbeddings::operator()(const ModelInputs& inputs) const {
  const at::Tensor& pixels = inputs.pixel_values;
  require<ShapeError>(pixels.size(1) == channels_, "[forward] pixel_values must have ", channels_,
                      " channels (num_channels); got ", pixels.size(1), ".");
  const int64_t height = pixels.size(2), width = pixels.size(3);
  const bool interpolate = spec_.any_size || inputs.interpolate_pos_encoding.value_or(false);
  require<ShapeError>(interpolate || (height == image_ && width == image_), "[forward] pixel_values must be ", image_,
                      " x ", image_, " (image_size); got ", height, " x ", width,
                      ". Set interpolate_pos_encoding for other sizes.");
  require<ShapeError>(height >= patch_ && width >= patch_, "[forward] pixel_values must have a patch of ", patch_,
                      " x ", patch_, "; got ", height, " x ", width, ".");
  at::Tensor x_BTD = projection_.patches(pixels.to(dtype()));
  if (class_token_) {
    const at::Tensor token = value_of(*class_token_).view({1, 1, hidden_}).expand({x_BTD.size(0), 1, hidden_});
    x_BTD = at::cat({token, x_BTD}, 1);
  }
  return x_BTD + positions(height, width, interpolate);
}

}  // namespace easydel
