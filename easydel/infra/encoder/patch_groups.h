// Patches of images of any sizes in one row, and which of them attend to each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace easydel {

// An image's or video's patches in time, height and width, as image_grid_thw has them. Patches that become one token,
// merge x merge of them, stand together.
struct PatchGrid {
  int64_t frames = 0, height = 0, width = 0;
  int64_t patches() const { return frames * height * width; }
};
// ShapeError, which begins with `where`, where grids are not [count, 3] of positive numbers, their sides are no
// multiples of `merge`, or they do not have `patches` in all.
std::vector<PatchGrid> read_grids(const at::Tensor& grid_thw, int64_t merge, int64_t patches, const std::string& where);

// Row and column [patches, 2] of each patch in its image.
at::Tensor patch_places(const std::vector<PatchGrid>& grids, int64_t merge);

// Segments whose patches attend only to each other, ordered by their lengths: those of one length are a batch.
struct PatchGroups {
  struct Group {
    int64_t first = 0, segments = 0, length = 0;  // patches [first, first + segments * length) of the order
  };
  at::Tensor order;  // [patches]: which patch stands where
  std::vector<Group> groups;
};
PatchGroups frame_groups(const std::vector<PatchGrid>& grids);  // all of a frame
// Windows of `window` x `window` tokens, smaller at the right and lower edges.
PatchGroups window_groups(const std::vector<PatchGrid>& grids, int64_t merge, int64_t window);

// Four rows of a square table of `side` x `side` positions for each patch, and their weights: the table stretched over
// each image, its corners on the image's. [patches, 4] each.
struct PatchInterpolation {
  at::Tensor rows, weights;
};
PatchInterpolation interpolate_places(const std::vector<PatchGrid>& grids, int64_t merge, int64_t side);

}  // namespace easydel
