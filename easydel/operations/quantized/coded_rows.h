// Rows of int8 codes, each followed by its scale: [..., H] floats as [..., H + 4] bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel::operations {

constexpr int64_t kScaleBytes = 4;  // a float32

// The largest element of a row becomes 127 or -127, so none is off by more than a 254th of it.
at::Tensor encode_rows(const at::Tensor& x);
at::Tensor decode_rows(const at::Tensor& rows, at::ScalarType dtype);

// The size of a row of `features` elements, in elements of the storage type; int8 means codes.
inline int64_t row_width(int64_t features, at::ScalarType stored) {
  return features + (stored == at::kChar ? kScaleBytes : 0);
}
inline int64_t row_features(int64_t width, at::ScalarType stored) {
  return width - (stored == at::kChar ? kScaleBytes : 0);
}
// Converts to and from the storage type of a cache.
at::Tensor to_stored(const at::Tensor& x, at::ScalarType stored);
at::Tensor from_stored(const at::Tensor& rows, at::ScalarType dtype);

}  // namespace easydel::operations
