// Tensors that are views of a mapped file: read into memory at the speed of the disk, or copied bypassing the map.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/core/files/mapped_file.h"

namespace easydel {

// Waits until a view is in memory. Page-faulting the tensors of a file in a different order than they are stored is
// half as fast as fetching each in order.
void fetch(const at::Tensor& view);

// Copies `view`, which is in the map of `file`, to `out`, of the same shape. Long runs of bytes are read from the file
// itself, on all threads, without populating the map: that is at least as fast and leaves only `out` in memory. Other
// cases (a different dtype or device, or strides with many short runs) go through the map.
void read_view(const MappedFile& file, const at::Tensor& view, const at::Tensor& out);

}  // namespace easydel
