// The product of rows and a matrix, by whichever of torch's libraries is faster on this machine.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::operations {

// Whether oneDNN multiplies these rows faster than what torch takes by itself. MKL runs its AVX2 kernels on AMD's
// processors: there oneDNN's AVX-512 ones are 10 to 20 % faster for float32.
bool prefers_onednn(const at::Tensor& rows);

// rows [..., n] and weight [m, n], of any strides: rows times the transposed weight, plus the bias [m] where there is
// one. No gradient flows through this.
at::Tensor product(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace easydel::operations
