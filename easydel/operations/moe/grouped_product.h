// Matrix products over rows that are sorted by expert, without gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace easydel::operations {

// Where each expert's rows end. On the host only where a product needs it: elsewhere that would wait for the device.
struct ExpertRows {
  at::Tensor ends;                 // [E] int32
  std::vector<int64_t> host_ends;  // may be empty; then it is read from the device when it is needed
};

// x[r] @ matrices[e] for each row r of expert e: x [R, in], matrices [E, in, out] of any strides.
at::Tensor grouped_product(const at::Tensor& x, const at::Tensor& matrices, const ExpertRows& rows);
// [E, m, n]: the transposed rows of a times those of b, for each expert: a [R, m], b [R, n].
at::Tensor grouped_outer(const at::Tensor& a, const at::Tensor& b, const ExpertRows& rows);

}  // namespace easydel::operations
