#include "easydel/operations/kernels/cuda/float8_casts.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cuda/fused.h"

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/float8_kernels.h"
#include "easydel/operations/kernels/cuda/launch.h"
#endif

namespace easydel::operations::cuda_fused {

using at::Tensor;

#ifdef EASYDEL_CUDA_KERNELS

namespace {

cuda_kernels::Float8Format format_of(Float8Rounding rounding) {
  return {rounding.dtype == at::kFloat8_e5m2, rounding.power_of_two};
}
Tensor empty_like_rows(const Tensor& x, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, x.options().dtype(dtype));
}
uint8_t* bytes(const Tensor& x) { return static_cast<uint8_t*>(x.mutable_data_ptr()); }

}  // namespace

bool can_cast_float8(const Tensor& x) {
  return applies(x) && x.dim() == 2 && x.numel() > 0 && x.stride(1) == 1 && in_packs(x) &&
         x.stride(0) * x.element_size() % 16 == 0 && cuda_kernels::can_cast_float8_rows(element_of(x), x.size(1));
}

std::pair<Tensor, Tensor> float8_rows(const Tensor& x, Float8Rounding rounding, Tensor* columns) {
  const int64_t rows = x.size(0), width = x.size(1);
  const Tensor out = empty_like_rows(x, {rows, width}, rounding.dtype);
  const Tensor inverse = empty_like_rows(x, {rows, 1}, at::kFloat);
  const int parts = cuda_kernels::float8_row_parts(element_of(x), rows, width);
  const Tensor column_parts = columns ? empty_like_rows(x, {parts, width}, at::kFloat) : Tensor();
  const cuda_kernels::Float8Rows args{x.const_data_ptr(),
                                      bytes(out),
                                      inverse.mutable_data_ptr<float>(),
                                      columns ? column_parts.mutable_data_ptr<float>() : nullptr,
                                      x.stride(0),
                                      rows,
                                      width,
                                      format_of(rounding),
                                      parts};
  launch(x, [&](auto stream) { cuda_kernels::float8_rows(element_of(x), args, stream); });
  if (columns) *columns = column_parts.amax(0);
  return {out, inverse};
}

Tensor float8_largest(const Tensor& x) {
  const Tensor largest = at::zeros({1}, x.options().dtype(at::kFloat));
  const cuda_kernels::Float8Largest args{x.const_data_ptr(), static_cast<uint32_t*>(largest.mutable_data_ptr()),
                                         x.stride(0), x.size(0), x.size(1)};
  launch(x, [&](auto stream) { cuda_kernels::float8_largest(element_of(x), args, stream); });
  return largest;
}

namespace {

std::pair<Tensor, Tensor> cast(const Tensor& x, const Tensor& largest, Float8Rounding rounding, bool transposed,
                               int64_t out_row) {
  const int64_t rows = x.size(0), width = x.size(1);
  const bool each = largest.numel() != 1;
  const Tensor out =
      empty_like_rows(x, transposed ? at::IntArrayRef{width, out_row} : at::IntArrayRef{rows, width}, rounding.dtype);
  const Tensor inverse = each ? empty_like_rows(x, {width, 1}, at::kFloat) : empty_like_rows(x, {}, at::kFloat);
  const cuda_kernels::Float8Cast args{x.const_data_ptr(),
                                      bytes(out),
                                      inverse.mutable_data_ptr<float>(),
                                      largest.const_data_ptr<float>(),
                                      each ? 1 : 0,
                                      x.stride(0),
                                      rows,
                                      width,
                                      out_row,
                                      format_of(rounding),
                                      transposed};
  launch(x, [&](auto stream) { cuda_kernels::float8_cast(element_of(x), args, stream); });
  return {out, inverse};
}

}  // namespace

std::pair<Tensor, Tensor> float8_cast(const Tensor& x, const Tensor& largest, Float8Rounding rounding) {
  return cast(x, largest, rounding, /*transposed=*/false, x.size(1));
}

std::pair<Tensor, Tensor> float8_columns(const Tensor& x, const Tensor& largest, Float8Rounding rounding,
                                         int64_t padded) {
  return cast(x, largest, rounding, /*transposed=*/true, padded);
}

#else

namespace {
[[noreturn]] void without_float8() {
  fail<NotSupportedError>("[operations] this build has no GPU kernels: it was built without nvcc.");
}
}  // namespace

bool can_cast_float8(const Tensor&) { return false; }
std::pair<Tensor, Tensor> float8_rows(const Tensor&, Float8Rounding, Tensor*) { without_float8(); }
Tensor float8_largest(const Tensor&) { without_float8(); }
std::pair<Tensor, Tensor> float8_cast(const Tensor&, const Tensor&, Float8Rounding) { without_float8(); }
std::pair<Tensor, Tensor> float8_columns(const Tensor&, const Tensor&, Float8Rounding, int64_t) { without_float8(); }

#endif

}  // namespace easydel::operations::cuda_fused
