// Pictures of different sizes in one tensor: how many patches each has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace easydel {

struct ModelInputs;

struct PictureGrid {
  int64_t rows = 0, columns = 0;
  int64_t patches() const { return rows * columns; }
};

// Whole patches of each picture, by image_sizes [pictures, 2]; of all of pixel_values where there are none. ShapeError
// where a size does not fit into them, or has no patch.
std::vector<PictureGrid> patch_grids(const ModelInputs& inputs, int64_t patch);

}  // namespace easydel
