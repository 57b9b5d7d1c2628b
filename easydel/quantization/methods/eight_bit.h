// Rows of int8, which other methods build on.
#pragma once

#include "easydel/quantization/method.h"

namespace easydel::quantization {

std::vector<Part> int8_parts();  // codes [out, in] and SCB [out], the largest |value| of each row
std::vector<at::Tensor> int8_quantize(const at::Tensor& matrix);

class EightBit : public Method {
 public:
  QuantizeOptions settings() const override;
  std::optional<operations::PackedFormat> format() const override { return operations::PackedFormat::kInt8; }
  std::vector<Part> parts(int64_t out, int64_t in) const override;
  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics* seen) const override;
  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override;
  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override;
  Json config() const override;
};

}  // namespace easydel::quantization
