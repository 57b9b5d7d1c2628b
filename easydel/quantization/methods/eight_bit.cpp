// 8bit: rows of int8 with one scale each, as bitsandbytes' int8_vectorwise_quant makes them. Activations stay floats.
#include <ATen/ATen.h>

#include "easydel/quantization/methods/eight_bit.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {

std::vector<Part> int8_parts() {
  using Of = PartDim::Of;
  return {{"weight", int8, {{Of::Rows}, {Of::Columns}}}, {"SCB", float32, {{Of::Rows}}}};
}

std::vector<at::Tensor> int8_quantize(const at::Tensor& matrix) {
  const at::Tensor absmax =
      matrix.size(1) > 0 ? std::get<0>(matrix.abs().max(1)) : at::zeros({matrix.size(0)}, matrix.options());
  // A row of zeros has the codes zero, where bitsandbytes rounds 0 * inf.
  at::Tensor scaled = matrix * absmax.reciprocal().mul_(127.0).unsqueeze(1);
  scaled.masked_fill_(absmax.eq(0).unsqueeze(1), 0);
  return {scaled.round_().to(at::kChar), absmax};
}

QuantizeOptions EightBit::settings() const { return {.method = "8bit"}; }

std::vector<Part> EightBit::parts(int64_t, int64_t) const { return int8_parts(); }

std::vector<at::Tensor> EightBit::quantize(const at::Tensor& matrix, const ChannelStatistics*) const {
  return int8_quantize(matrix);
}

at::Tensor EightBit::dequantize(const LocalShard& held, int64_t begin, int64_t end) const {
  return int8_rows(held.parts[0].narrow(0, begin, end - begin), held.parts[1].narrow(0, begin, end - begin));
}

at::Tensor EightBit::multiply(const at::Tensor& x, const LocalShard& held) const {
  return held.cut ? Method::multiply(x, held) : int8_product(x, held.parts[0], held.parts[1]);
}

Json EightBit::config() const {
  Json json = Json::object();
  json["quant_method"] = "bitsandbytes";
  json["load_in_8bit"] = true;
  json["load_in_4bit"] = false;
  return json;
}

std::shared_ptr<const Method> make_8bit(const QuantizeOptions& settings) {
  refuse_group(settings);
  return std::make_shared<EightBit>();
}

}  // namespace easydel::quantization
