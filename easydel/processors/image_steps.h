// Image preprocessing, in the arithmetic of torchvision on tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace easydel {

// What a size in preprocessor_config.json may say: height and width, shortest_edge (with longest_edge), or max_height
// and max_width.
struct ImageSize {
  std::optional<int64_t> height, width, shortest_edge, longest_edge, max_height, max_width;
};

struct HeightWidth {
  int64_t height = 0, width = 0;
  friend bool operator==(const HeightWidth&, const HeightWidth&) = default;
};

// The numbers are Pillow's, as files have them.
enum class Resample : uint8_t { Nearest = 0, Lanczos = 1, Bilinear = 2, Bicubic = 3 };

// The size that an image of `given` is resized to. ConfigError where the size says nothing of that.
HeightWidth resized_size(HeightWidth given, const ImageSize& size);

// The size nearest to `given` with edges in multiples of `factor` and from `least` to `most` pixels, in its shape.
// ShapeError where an edge is more than 200 times the other.
HeightWidth fitting_size(HeightWidth given, int64_t factor, int64_t least, int64_t most);

// Images are [3, height, width] of uint8, and stay so.
at::Tensor resize_image(const at::Tensor& image, HeightWidth to, Resample resample);
at::Tensor center_crop(const at::Tensor& image, HeightWidth to);  // with black around an image that is smaller
at::Tensor pad_to_square(const at::Tensor& image, const std::vector<double>& mean);  // in the mean's colour
at::Tensor pad_below(const at::Tensor& image, HeightWidth to);                       // with zeros right and below

}  // namespace easydel
