// Tensors that are views of a mapped file: brought into memory at the speed of the disk, or copied past the map.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/core/files/mapped_file.h"

namespace easydel {

// Waits until a view is in memory. Taking the tensors of a file in another order than they have there, page by page, is
// half as fast as fetching each in its turn.
void fetch(const at::Tensor& view);

// Copies `view`, which lies in the map of `file`, to `out`, of the same shape. Long runs of bytes are read from the
// file itself, on all threads, and do not become part of the map: that is at least as fast and leaves only `out` in
// memory. What that cannot do, another dtype or device or strides with many short runs, goes through the map.
void read_view(const MappedFile& file, const at::Tensor& view, const at::Tensor& out);

}  // namespace easydel
