// a8q: 8-bit weights, as 8bit has them, and 8-bit activations: each token is rounded to 255 steps of its own largest
// value when it arrives. Nothing is calibrated.
#include <ATen/ATen.h>

#include "easydel/quantization/methods/eight_bit.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

class A8q : public EightBit {
 public:
  QuantizeOptions settings() const override { return {.method = "a8q"}; }
  std::optional<operations::PackedFormat> format() const override { return std::nullopt; }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    const at::Tensor scale = largest_in_row(x, held) / 127.0;
    const at::Tensor codes = (x.to(at::kFloat) / scale.clamp_min(1e-30)).round_();
    return (EightBit::multiply(codes, held) * scale).to(x.scalar_type());
  }

  Json config() const override { return Method::config(); }
};

}  // namespace

std::shared_ptr<const Method> make_a8q(const QuantizeOptions& settings) {
  refuse_group(settings);
  return std::make_shared<A8q>();
}

}  // namespace easydel::quantization
