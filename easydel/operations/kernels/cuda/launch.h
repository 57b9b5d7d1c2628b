// How wrappers of GPU kernels call them. For builds that have such kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "easydel/operations/kernels/cuda/cuda_kernels.h"
#include "easydel/operations/linear/around_products.h"

namespace easydel::operations {

inline cuda_kernels::Element element_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat  ? cuda_kernels::Element::Float32
         : x.scalar_type() == at::kHalf ? cuda_kernels::Element::Float16
                                        : cuda_kernels::Element::BFloat16;
}

inline bool in_packs(const at::Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0; }

inline cuda_kernels::RowNorm row_norm(const at::Tensor& x, const AroundProducts& around) {
  const RmsNormOptions& norm = around.norm_options;
  return {around.norm.const_data_ptr(), static_cast<float>(norm.eps), static_cast<float>(norm.weight_offset),
          !norm.multiply_before_cast && x.element_size() == 2};
}

// f(stream) on the device of x.
template <class F>
void launch(const at::Tensor& x, const F& f) {
  const c10::cuda::CUDAGuard guard(x.device());
  f(c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace easydel::operations
