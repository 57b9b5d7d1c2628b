#include "easydel/infra/decoder/mrope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr int64_t kImage = 1, kVideo = 2;
constexpr float kMaxSeconds = 1e6F;

struct Grid {
  int64_t frames = 0, height = 0, width = 0;
  int64_t tokens() const { return frames * height * width; }
};

// In tokens, one after the other.
class GridList {
 public:
  GridList(const at::Tensor& given, int64_t merge) {
    if (!given.defined()) return;
    const at::Tensor grids = given.to(at::kCPU, at::kLong).contiguous();
    for (int64_t i = 0; i < grids.size(0); ++i) {
      const int64_t* row = grids.const_data_ptr<int64_t>() + i * 3;
      grids_.push_back({row[0], row[1] / merge, row[2] / merge});
    }
  }
  // Null: there are no more.
  const Grid* next() { return next_ < grids_.size() ? &grids_[next_++] : nullptr; }
  std::size_t last() const { return next_ - 1; }  // of what next gave

 private:
  std::vector<Grid> grids_;
  std::size_t next_ = 0;
};

using Position = std::array<int64_t, 3>;

// The product in float32, as transformers has it, where `frame_step` is no whole number.
void add_grid(std::vector<Position>& positions, const Grid& grid, int64_t start, float frame_step) {
  for (int64_t t = 0; t < grid.frames; ++t) {
    const auto time = static_cast<int64_t>(static_cast<float>(t) * frame_step);
    for (int64_t y = 0; y < grid.height; ++y) {
      for (int64_t x = 0; x < grid.width; ++x) positions.push_back({start + time, start + y, start + x});
    }
  }
}

}  // namespace

MropeAxes sections_in_order(const std::vector<int64_t>& sections) {
  MropeAxes axes;
  for (std::size_t i = 0; i < sections.size(); ++i)
    axes.insert(axes.end(), static_cast<std::size_t>(sections[i]), static_cast<int64_t>(i % 3));
  return axes;
}

MropeAxes sections_interleaved(const std::vector<int64_t>& sections, int64_t pairs) {
  MropeAxes axes(static_cast<std::size_t>(pairs), 0);
  for (std::size_t axis = 1; axis < 3; ++axis) {
    const auto end = std::min(pairs, 3 * sections[axis]);
    for (auto pair = static_cast<int64_t>(axis); pair < end; pair += 3)
      axes[static_cast<std::size_t>(pair)] = static_cast<int64_t>(axis);
  }
  return axes;
}

operations::RopeTable mrope_table(const operations::RopeFrequencies& frequencies, const MropeAxes& axes,
                                  const at::Tensor& positions, at::ScalarType dtype) {
  if (positions.dim() == 2) return operations::rope_table(frequencies, positions, dtype);
  const at::Tensor axis = at::tensor(axes, at::kLong).to(positions.device());
  const at::Tensor angles =
      positions.index_select(2, axis).to(dtype) * frequencies.inv_freq.to(positions.device(), dtype);
  return {angles.cos() * frequencies.attention_scaling, angles.sin() * frequencies.attention_scaling};
}

at::Tensor grid_positions(const TokenGrids& tokens, const std::string& where) {
  const int64_t rows = tokens.types.size(0), length = tokens.types.size(1);
  const at::Tensor types = tokens.types.to(at::kCPU, at::kLong).contiguous();
  const at::Tensor mask = tokens.mask.defined() ? tokens.mask.to(at::kCPU).ne(0).contiguous() : at::Tensor();
  at::Tensor result = at::zeros({rows, length, 3}, at::kLong);
  GridList images(tokens.image_grid_thw, tokens.merge), videos(tokens.video_grid_thw, tokens.merge);
  at::Tensor seconds = tokens.second_per_grid_ts;
  if (seconds.defined()) {
    require<ShapeError>(tokens.video_grid_thw.defined() && seconds.dim() == 1 &&
                            seconds.size(0) == tokens.video_grid_thw.size(0) && !seconds.is_complex(),
                        where, "second_per_grid_ts must have a number for each row of video_grid_thw; got ",
                        seconds.sizes(), ".");
    seconds = seconds.to(at::kCPU, at::kFloat).contiguous();
    require<ConfigError>(seconds.isfinite().all().item<bool>() && seconds.ge(0).all().item<bool>() &&
                             seconds.le(kMaxSeconds).all().item<bool>(),
                         where, "second_per_grid_ts must be from 0 to ", kMaxSeconds, ".");
  }
  const auto step_of_video = [&] {
    const auto step = static_cast<float>(tokens.frame_step);
    return seconds.defined() ? step * seconds.const_data_ptr<float>()[videos.last()] : step;
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* type = types.const_data_ptr<int64_t>() + row * length;
    std::vector<int64_t> places;  // of the tokens that are no padding
    for (int64_t i = 0; i < length; ++i) {
      if (!mask.defined() || mask.const_data_ptr<bool>()[row * length + i]) places.push_back(i);
    }
    std::vector<Position> positions;
    int64_t next = 0;
    while (positions.size() < places.size()) {
      const int64_t kind = type[places[positions.size()]];
      require<ShapeError>(kind >= 0 && kind <= kVideo, where,
                          "mm_token_type_ids must be 0 (text), 1 (image) or 2 (video); got ", kind, " in row ", row,
                          ".");
      if (kind == 0) {
        positions.push_back({next, next, next});
        ++next;
        continue;
      }
      const char* const name = kind == kImage ? "image" : "video";
      const Grid* grid = (kind == kImage ? images : videos).next();
      require<ShapeError>(grid != nullptr, where, "row ", row, " has tokens of more ", name, "s than ", name,
                          "_grid_thw has rows.");
      const std::size_t begin = positions.size();
      add_grid(positions, *grid, next, kind == kVideo ? step_of_video() : 1);
      bool fits = grid->tokens() > 0 && positions.size() <= places.size();
      for (std::size_t i = begin; fits && i < positions.size(); ++i) fits = type[places[i]] == kind;
      require<ShapeError>(fits, where, "an ", name, " of ", grid->frames, " x ", grid->height, " x ", grid->width,
                          " tokens must be contiguous in row ", row, "; got fewer.");
      next += std::max(grid->height, grid->width);
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      int64_t* to = result.mutable_data_ptr<int64_t>() + (row * length + places[i]) * 3;
      std::copy(positions[i].begin(), positions[i].end(), to);
    }
  }
  require<ShapeError>(
      !tokens.all_shown || (!images.next() && !videos.next()), where,
      "every row of image_grid_thw and video_grid_thw needs its tokens; got more rows than the ids have "
      "images.");
  return result.to(tokens.types.device());
}

at::Tensor rope_deltas(const at::Tensor& positions, const at::Tensor& visible) {
  const at::Tensor next = positions.flatten(1).amax(1, /*keepdim=*/true) + 1;
  return next - (visible.defined() ? visible.ne(0).sum(1, /*keepdim=*/true) : at::full_like(next, positions.size(1)));
}

}  // namespace easydel
