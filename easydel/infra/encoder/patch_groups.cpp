#include "easydel/infra/encoder/patch_groups.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using Segments = std::vector<std::vector<int64_t>>;  // the patches of each

PatchGroups group(const Segments& segments) {
  std::map<std::size_t, std::vector<const std::vector<int64_t>*>> by_length;
  for (const std::vector<int64_t>& segment : segments) by_length[segment.size()].push_back(&segment);
  PatchGroups result;
  std::vector<int64_t> order;
  for (const auto& [length, those] : by_length) {
    result.groups.push_back(
        {static_cast<int64_t>(order.size()), static_cast<int64_t>(those.size()), static_cast<int64_t>(length)});
    for (const std::vector<int64_t>* segment : those) order.insert(order.end(), segment->begin(), segment->end());
  }
  result.order = at::tensor(order, at::kLong);
  return result;
}

// Calls f(row, column) for the patches of a frame in their order.
template <class F>
void for_patches(const PatchGrid& grid, int64_t merge, const F& f) {
  for (int64_t y = 0; y < grid.height; y += merge) {
    for (int64_t x = 0; x < grid.width; x += merge) {
      for (int64_t i = 0; i < merge * merge; ++i) f(y + i / merge, x + i % merge);
    }
  }
}

}  // namespace

std::vector<PatchGrid> read_grids(const at::Tensor& grid_thw, int64_t merge, int64_t patches,
                                  const std::string& where) {
  require<ShapeError>(grid_thw.defined() && grid_thw.dim() == 2 && grid_thw.size(1) == 3 &&
                          at::isIntegralType(grid_thw.scalar_type(), false),
                      where, "grids must be integers [images, 3]: patches in time, height and width; got ",
                      grid_thw.defined() ? grid_thw.sizes() : at::IntArrayRef(), ".");
  const at::Tensor values = grid_thw.to(at::kCPU, at::kLong).contiguous();
  std::vector<PatchGrid> grids;
  int64_t total = 0;
  constexpr int64_t kMaxCount = 1 << 20;  // so that products fit
  for (int64_t i = 0; i < values.size(0); ++i) {
    const int64_t* v = values.const_data_ptr<int64_t>() + 3 * i;
    const PatchGrid grid{v[0], v[1], v[2]};
    const bool positive = std::all_of(v, v + 3, [](int64_t n) { return n > 0 && n < kMaxCount; });
    require<ShapeError>(positive && grid.height % merge == 0 && grid.width % merge == 0, where, "a grid must be ",
                        "positive, with height and width in multiples of spatial_merge_size ", merge, "; got ", v[0],
                        " x ", v[1], " x ", v[2], ".");
    total += grid.patches();
    grids.push_back(grid);
  }
  require<ShapeError>(total == patches, where, "the grids have ", total, " patches in all; got pixels of ", patches,
                      ".");
  return grids;
}

at::Tensor patch_places(const std::vector<PatchGrid>& grids, int64_t merge) {
  std::vector<int64_t> places;
  for (const PatchGrid& grid : grids) {
    for (int64_t t = 0; t < grid.frames; ++t) {
      for_patches(grid, merge, [&](int64_t row, int64_t column) {
        places.push_back(row);
        places.push_back(column);
      });
    }
  }
  return at::tensor(places, at::kLong).view({-1, 2});
}

PatchGroups frame_groups(const std::vector<PatchGrid>& grids) {
  Segments segments;
  int64_t next = 0;
  for (const PatchGrid& grid : grids) {
    for (int64_t t = 0; t < grid.frames; ++t) {
      segments.emplace_back();
      for (int64_t i = 0; i < grid.height * grid.width; ++i) segments.back().push_back(next++);
    }
  }
  return group(segments);
}

PatchGroups window_groups(const std::vector<PatchGrid>& grids, int64_t merge, int64_t window) {
  Segments segments;
  int64_t first = 0;  // token of the frame
  for (const PatchGrid& grid : grids) {
    const int64_t height = grid.height / merge, width = grid.width / merge, unit = merge * merge;
    for (int64_t t = 0; t < grid.frames; ++t, first += height * width) {
      for (int64_t top = 0; top < height; top += window) {
        for (int64_t left = 0; left < width; left += window) {
          segments.emplace_back();
          for (int64_t y = top; y < std::min(top + window, height); ++y) {
            for (int64_t x = left; x < std::min(left + window, width); ++x) {
              for (int64_t i = 0; i < unit; ++i) segments.back().push_back((first + y * width + x) * unit + i);
            }
          }
        }
      }
    }
  }
  return group(segments);
}

PatchInterpolation interpolate_places(const std::vector<PatchGrid>& grids, int64_t merge, int64_t side) {
  std::vector<int64_t> rows;
  std::vector<float> weights;
  const auto last = static_cast<float>(side - 1);
  for (const PatchGrid& grid : grids) {
    const auto at_table = [&](int64_t index, int64_t size) {
      return static_cast<float>(index) * last / static_cast<float>(std::max<int64_t>(size - 1, 1));
    };
    for (int64_t t = 0; t < grid.frames; ++t) {
      for_patches(grid, merge, [&](int64_t row, int64_t column) {
        const float y = at_table(row, grid.height), x = at_table(column, grid.width);
        const float y_floor = std::floor(y), x_floor = std::floor(x);
        for (int64_t dy = 0; dy < 2; ++dy) {
          for (int64_t dx = 0; dx < 2; ++dx) {
            const int64_t from_y = std::min(static_cast<int64_t>(y_floor) + dy, side - 1);
            const int64_t from_x = std::min(static_cast<int64_t>(x_floor) + dx, side - 1);
            rows.push_back(from_y * side + from_x);
            weights.push_back((1 - std::abs(y - y_floor - static_cast<float>(dy))) *
                              (1 - std::abs(x - x_floor - static_cast<float>(dx))));
          }
        }
      });
    }
  }
  return {at::tensor(rows, at::kLong).view({-1, 4}), at::tensor(weights, at::kFloat).view({-1, 4})};
}

}  // namespace easydel
