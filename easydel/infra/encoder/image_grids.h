// Images of different sizes in one tensor: how many patches each has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace easydel {

struct ModelInputs;

struct ImageGrid {
  int64_t rows = 0, columns = 0;
  int64_t patches() const { return rows * columns; }
};

// Whole patches of each image, by image_sizes [images, 2]; of all of pixel_values where there are none. ShapeError
// where a size does not fit into them, or has no patch.
std::vector<ImageGrid> patch_grids(const ModelInputs& inputs, int64_t patch);

}  // namespace easydel
