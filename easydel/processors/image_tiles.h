// Images in several pieces, or in sizes of their own: what vision-language models make of a long image, or a large one.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "easydel/processors/image_steps.h"

namespace easydel {

// Gemma 3: an image that is much longer than wide, or much wider, is shown a second time in crops.
struct PanAndScan {
  int64_t min_crop_size = 256;
  int64_t max_num_crops = 4;
  double min_ratio_to_activate = 1.2;
};
// The crops, in reading order; none where the image is not long enough, or crops would be too small.
std::vector<at::Tensor> pan_and_scan(const at::Tensor& image, const PanAndScan& options);

// Pixtral: no side is longer than `longest`, and both are filled up to whole patches.
HeightWidth size_in_patches(HeightWidth given, HeightWidth longest, HeightWidth patch);

// SmolVLM: squares of one size, row by row, and the whole image in that size.
struct Tiles {
  std::vector<at::Tensor> pieces;
  HeightWidth grid = {};  // rows and columns of the squares; 0 x 0: the image alone
};
Tiles split_image(const at::Tensor& image, int64_t side, Resample resample);
// The longer side becomes `longest`, the other one keeps the shape and is even.
HeightWidth size_by_longest_edge(HeightWidth given, int64_t longest);

}  // namespace easydel
