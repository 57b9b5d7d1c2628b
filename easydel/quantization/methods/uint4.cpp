// uint4: codes from 0 to 15 that stand for (code - zero) * scale, with a float16 scale and a zero point for each group
// of columns, as the files of AWQ and GPTQ have them.
#include <ATen/ATen.h>

#include "easydel/operations/quantized/code_product.h"
#include "easydel/quantization/methods/file_methods.h"
#include "easydel/quantization/methods/uint4.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kRun = 32;  // codes are packed in runs of this length, as those of int4
using Of = PartDim::Of;

class Uint4 : public Method {
 public:
  explicit Uint4(QuantizeOptions settings) : settings_(std::move(settings)) {}

  QuantizeOptions settings() const override { return settings_; }

  std::vector<Part> parts(int64_t, int64_t in) const override {
    check_group(settings_, kRun, in);
    return {{"weight", uint8, {{Of::Rows}, {Of::Columns, 2}}},
            {"weight.scales", float16, {{Of::Rows}, {Of::Columns, settings_.group_size}}},
            {"weight.zeros", uint8, {{Of::Rows}, {Of::Columns, settings_.group_size}}}};
  }

  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics*) const override {
    const Uint4Codes made = uint4_codes(matrix, settings_.group_size);
    return {int4_pack(made.codes), made.scales, made.zeros};
  }

  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override {
    if (const at::Tensor values = operations::unpack_codes(codes_of(held), begin, end); values.defined()) return values;
    const auto rows = [&](std::size_t part) { return held.parts[part].narrow(0, begin, end - begin); };
    // As codes around 8, and then moved to where their zero is.
    const at::Tensor values = int4_rows(rows(0), rows(1), settings_.group_size);
    const at::Tensor shift = (8.0 - rows(2).to(at::kFloat)).mul_(rows(1).to(at::kFloat));
    values.view({values.size(0), -1, settings_.group_size}).add_(shift.unsqueeze(-1));
    return values;
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    const operations::FileCodes codes = codes_of(held);
    if (held.cut || !operations::can_multiply_codes(x, codes)) return Method::multiply(x, held);
    return operations::code_product(x, codes);
  }

 private:
  static operations::FileCodes codes_of(const LocalShard& held) {
    return {operations::CodeFormat::kUint4, held.parts[0], held.parts[1], held.parts[2]};
  }

  QuantizeOptions settings_;
};

}  // namespace

Uint4Codes uint4_codes(const at::Tensor& matrix, int64_t group) {
  const at::Tensor groups = matrix.contiguous().view({matrix.size(0), -1, group});
  const at::Tensor low = groups.amin({-1}, true).clamp_max_(0), high = groups.amax({-1}, true).clamp_min_(0);
  const at::Tensor scale = ((high - low) / 15.0).to(at::kHalf);
  scale.masked_fill_(scale.eq(0), 1.0);
  const at::Tensor floats = scale.to(at::kFloat), zero = (-low / floats).round_().clamp_(0, 15);
  const at::Tensor codes = (groups / floats).round_().add_(zero).clamp_(0, 15).to(at::kByte);
  return {codes.view(matrix.sizes()), scale.squeeze(-1), zero.squeeze(-1).to(at::kByte)};
}

at::Tensor uint4_values(const Uint4Codes& made, int64_t group) {
  const at::Tensor groups = made.codes.view({made.codes.size(0), -1, group}).to(at::kFloat);
  return groups.sub_(made.zeros.unsqueeze(-1)).mul_(made.scales.unsqueeze(-1)).view(made.codes.sizes());
}

std::shared_ptr<const Method> make_uint4(const QuantizeOptions& given) {
  QuantizeOptions settings = given;
  if (settings.group_size == 0) settings.group_size = kRun;
  return std::make_shared<Uint4>(settings);
}

}  // namespace easydel::quantization
