// Positions in time, height and width (M-RoPE): those of the tokens of images, and the rotary table of all three.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/infra/files/model_io.h"
#include "easydel/operations/rope.h"

namespace easydel {

// A model that takes position_ids of [3, B, T] too. Inside they are [B, T, 3], so that rows and tokens are split as
// those of any other input.
class GridPositions {
 public:
  virtual ~GridPositions() = default;
};

// Which of the three positions turns each pair of a head's dimensions.
using MropeAxes = std::vector<int64_t>;
MropeAxes sections_in_order(const std::vector<int64_t>& sections);  // all of time, then height, then width
MropeAxes sections_interleaved(const std::vector<int64_t>& sections, int64_t pairs);  // one by one

// The table of positions [B, T], which count for all three, or [B, T, 3].
operations::RopeTable mrope_table(const operations::RopeFrequencies& frequencies, const MropeAxes& axes,
                                  const at::Tensor& positions, at::ScalarType dtype);

struct TokenGrids {
  at::Tensor types;                           // [B, T]: 0 text, 1 image, 2 video
  at::Tensor mask;                            // [B, T], zero: padding; undefined: there is none
  at::Tensor image_grid_thw, video_grid_thw;  // [count, 3] in patches; undefined: none
  int64_t merge = 1;                          // patches on a side of what becomes a token
  double frame_step = 1;                      // of the positions in time, in a second of a video
  at::Tensor second_per_grid_ts = {};         // [videos] from one step in time to the next; undefined: 1
  bool all_shown = true;                      // false: rows of other ranks may have the tokens of some grids
};
// The positions [B, T, 3] that get_rope_index of transformers gives: text counts on in all three, an image spans a
// grid. ShapeError, which begins with `where`, names the row whose tokens do not fit the grids.
at::Tensor grid_positions(const TokenGrids& tokens, const std::string& where);

// [B, 1]: by how much a row's next position differs from the number of its tokens. `visible` [B, T], zero: padding;
// undefined: there is none.
at::Tensor rope_deltas(const at::Tensor& positions, const at::Tensor& visible);

}  // namespace easydel
