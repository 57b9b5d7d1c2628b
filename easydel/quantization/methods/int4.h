// 4-bit codes around zero, which other methods build on.
#pragma once

#include "easydel/quantization/method.h"

namespace easydel::quantization {

class Int4 : public Method {
 public:
  explicit Int4(QuantizeOptions settings) : settings_(std::move(settings)) {}
  QuantizeOptions settings() const override { return settings_; }
  std::optional<operations::PackedFormat> format() const override { return operations::PackedFormat::kInt4; }
  std::vector<Part> parts(int64_t out, int64_t in) const override;
  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics* seen) const override;
  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override;
  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override;

 protected:
  QuantizeOptions settings_;
};

}  // namespace easydel::quantization
