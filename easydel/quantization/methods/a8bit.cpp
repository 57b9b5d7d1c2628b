// a8bit: activation-aware 8 bit. Columns whose inputs are large are scaled up before rows are quantized as 8bit does,
// and the inputs scaled down by as much, so that what matters is rounded more finely. The scales are found from
// calibration data.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/quantization/methods/eight_bit.h"
#include "easydel/quantization/packed_products.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::quantization {
namespace {

class A8bit : public EightBit {
 public:
  QuantizeOptions settings() const override { return {.method = "a8bit"}; }
  std::optional<operations::PackedFormat> format() const override { return std::nullopt; }
  bool needs_calibration() const override { return true; }

  std::vector<Part> parts(int64_t, int64_t) const override {
    std::vector<Part> parts = int8_parts();
    parts.push_back({"weight.channel_scale", float32, {{PartDim::Of::Columns}}});
    return parts;
  }

  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics* seen) const override {
    require<ConfigError>(seen != nullptr, "[quantize] a8bit needs calibration data.");
    // Of these powers of the mean input, the one with the smallest expected squared error of the result, when channels
    // are taken as uncorrelated. The first means no scaling.
    constexpr int kSteps = 10;
    const at::Tensor mean = seen->mean_abs.clamp_min(1e-6 * std::max(1e-12, seen->mean_abs.max().item<double>()));
    const at::Tensor relative = mean / mean.log().mean().exp();
    std::vector<at::Tensor> best;
    double least = INFINITY;
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor scale = relative.pow(static_cast<double>(step) / kSteps).clamp(1e-4, 1e4);
      std::vector<at::Tensor> parts = int8_quantize(matrix * scale);
      const at::Tensor rest = int8_rows(parts[0], parts[1]).div_(scale).sub_(matrix);
      const double error = rest.square_().mv(seen->mean_square).sum().item<double>();
      if (error < least || best.empty()) {
        least = error;
        parts.push_back(scale);
        best = std::move(parts);
      }
    }
    return best;
  }

  std::vector<at::Tensor> requantize(const at::Tensor& matrix, const std::vector<at::Tensor>& old) const override {
    std::vector<at::Tensor> parts = int8_quantize(matrix * old[2]);
    parts.push_back(old[2]);
    return parts;
  }

  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override {
    return EightBit::dequantize(held, begin, end).div_(held.parts[2]);
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    const at::Tensor scale = held.cut ? take(held.parts[2], {*held.cut}) : held.parts[2];
    const at::Tensor scaled = x / scale.to(x.scalar_type());
    if (!held.cut) return int8_product(scaled, held.parts[0], held.parts[1]);
    return chunked_product(scaled, held.row_count(), [&](int64_t begin, int64_t end) {
      return take(EightBit::dequantize(held, begin, end), {{{0, end - begin}}, *held.cut});
    });
  }

  Json config() const override { return Method::config(); }
};

}  // namespace

std::shared_ptr<const Method> make_a8bit(const QuantizeOptions& settings) {
  refuse_group(settings);
  return std::make_shared<A8bit>();
}

}  // namespace easydel::quantization
