#include "easydel/processors/image_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace easydel {

std::vector<at::Tensor> pan_and_scan(const at::Tensor& image, const PanAndScan& options) {
  const int64_t height = image.size(1), width = image.size(2);
  const int64_t longer = std::max(height, width), shorter = std::min(height, width);
  const double ratio = static_cast<double>(longer) / static_cast<double>(shorter);
  if (ratio < options.min_ratio_to_activate) return {};
  int64_t count = std::min(longer / options.min_crop_size, static_cast<int64_t>(std::floor(ratio + 0.5)));
  count = std::min(options.max_num_crops, std::max<int64_t>(2, count));
  const int64_t size = (longer + count - 1) / count;
  if (std::min(size, shorter) < options.min_crop_size) return {};
  const int64_t side = width >= height ? 2 : 1;
  std::vector<at::Tensor> crops;
  for (int64_t i = 0; i < count; ++i)
    crops.push_back(image.slice(side, std::min(i * size, longer), std::min((i + 1) * size, longer)));
  return crops;
}

HeightWidth size_in_patches(HeightWidth given, HeightWidth longest, HeightWidth patch) {
  const double ratio = std::max(static_cast<double>(given.height) / static_cast<double>(longest.height),
                                static_cast<double>(given.width) / static_cast<double>(longest.width));
  if (ratio > 1) {
    given.height = static_cast<int64_t>(std::floor(static_cast<double>(given.height) / ratio));
    given.width = static_cast<int64_t>(std::floor(static_cast<double>(given.width) / ratio));
  }
  // As Python divides: a side that became nothing stays so.
  const auto filled = [](int64_t side, int64_t step) { return side <= 0 ? 0 : ((side - 1) / step + 1) * step; };
  return {filled(given.height, patch.height), filled(given.width, patch.width)};
}

HeightWidth size_by_longest_edge(HeightWidth given, int64_t longest) {
  constexpr int64_t kMaxSize = 4096;  // transformers' own limit
  const auto ratio_of = [](HeightWidth size) {
    return static_cast<double>(size.width) / static_cast<double>(size.height);
  };
  // As Python's int: towards zero.
  const auto fit = [](HeightWidth size, int64_t edge, double ratio) {
    if (size.width >= size.height) return HeightWidth{static_cast<int64_t>(static_cast<double>(edge) / ratio), edge};
    return HeightWidth{edge, static_cast<int64_t>(static_cast<double>(edge) * ratio)};
  };
  HeightWidth size = fit(given, longest, ratio_of(given));
  int64_t& other = given.width >= given.height ? size.height : size.width;
  other += other % 2;
  size = {std::max<int64_t>(size.height, 1), std::max<int64_t>(size.width, 1)};
  if (std::max(size.height, size.width) <= kMaxSize) return size;
  size = fit(size, kMaxSize, ratio_of(size));
  return {std::max<int64_t>(size.height, 1), std::max<int64_t>(size.width, 1)};
}

Tiles split_image(const at::Tensor& image, int64_t side, Resample resample) {
  const int64_t height = image.size(1), width = image.size(2);
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  const auto filled = [side](int64_t length) { return (length + side - 1) / side * side; };
  HeightWidth size;
  if (width >= height) {
    size.width = filled(width);
    size.height = filled(static_cast<int64_t>(static_cast<double>(size.width) / ratio));
  } else {
    size.height = filled(height);
    size.width = filled(static_cast<int64_t>(static_cast<double>(size.height) * ratio));
  }
  const at::Tensor whole = resize_image(image, size, resample);
  if (size.height <= side && size.width <= side) return {{whole}};
  Tiles tiles{{}, {size.height / side, size.width / side}};
  for (int64_t row = 0; row < tiles.grid.height; ++row) {
    for (int64_t column = 0; column < tiles.grid.width; ++column)
      tiles.pieces.push_back(whole.narrow(1, row * side, side).narrow(2, column * side, side));
  }
  tiles.pieces.push_back(resize_image(whole, {side, side}, resample));
  return tiles;
}

}  // namespace easydel
