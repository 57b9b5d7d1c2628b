#include "easydel/operations/quantized/coded_rows.h"

#include <ATen/ATen.h>

namespace easydel::operations {

at::Tensor encode_rows(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = wide.abs().amax(-1, /*keepdim=*/true).div_(127);
  // A row of zeros has scale 0 and codes 0.
  const at::Tensor codes = wide.div(scale.clamp_min(1e-38)).round_().clamp_(-127, 127).to(at::kChar);
  return at::cat({codes, scale.contiguous().view(at::kChar)}, -1);
}

at::Tensor decode_rows(const at::Tensor& rows, at::ScalarType dtype) {
  const int64_t features = rows.size(-1) - kScaleBytes;
  const at::Tensor scale = rows.narrow(-1, features, kScaleBytes).contiguous().view(at::kFloat);
  return rows.narrow(-1, 0, features).to(at::kFloat).mul_(scale).to(dtype);
}

at::Tensor to_stored(const at::Tensor& x, at::ScalarType stored) {
  if (x.scalar_type() == stored) return x;
  if (stored == at::kChar) return encode_rows(x);
  if (c10::elementSize(stored) > 1) return x.to(stored);
  const double most = stored == at::kFloat8_e4m3fn ? 448.0 : 57344.0;  // a conversion makes NaN of what is above
  return x.clamp(-most, most).to(stored);
}

at::Tensor from_stored(const at::Tensor& rows, at::ScalarType dtype) {
  return rows.scalar_type() == at::kChar ? decode_rows(rows, dtype) : rows.to(dtype);
}

}  // namespace easydel::operations
