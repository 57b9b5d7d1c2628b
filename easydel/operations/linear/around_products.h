// What surrounds the linear maps of a decoder, for kernels that do it in the same launch.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/operations/activation.h"
#include "easydel/operations/norm.h"
#include "easydel/operations/rope.h"

namespace easydel::operations {

// What is done to the input and to the results of several linear maps of one x.
struct AroundProducts {
  at::Tensor norm = {};  // x is normalized with this weight; undefined: it is not
  RmsNormOptions norm_options = {};
  at::Tensor residual = {};          // added to the result of the only map
  const Activation* gate = nullptr;  // of two maps: act(first) * second is the only result
  const RopeTable* rope = nullptr;   // rotates the results of the first `rotated` maps, heads of head_size
  RopeStyle rope_style = RopeStyle::Half;
  int64_t head_size = 0;
  std::size_t rotated = 0;
};

}  // namespace easydel::operations
