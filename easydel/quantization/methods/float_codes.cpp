// fp8: float8_e4m3fn, the bits of which are kept as bytes, with a float32 scale for each row or each group of a row.
// mxfp4: 4-bit floats in blocks of 32 with a power of two, as the files of gpt-oss have them.
#include "easydel/quantization/methods/float_codes.h"

#include <ATen/ATen.h>

#include <array>

#include "easydel/core/error.h"
#include "easydel/operations/quantized/code_product.h"
#include "easydel/quantization/methods/file_methods.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

using Of = PartDim::Of;

constexpr double kLargestFp8 = 448.0;
constexpr int64_t kMxBlock = 32;
constexpr std::array<float, 16> kFp4{0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

const at::Tensor& fp4_pairs() {
  static const at::Tensor pairs = [] {
    const at::Tensor table = at::empty({256, 2}, at::kFloat);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      table.mutable_data_ptr<float>()[2 * byte] = kFp4[byte & 15];
      table.mutable_data_ptr<float>()[2 * byte + 1] = kFp4[byte >> 4];
    }
    return table;
  }();
  return pairs;
}

// From the codes, if there are kernels for them and x is only a few vectors.
at::Tensor multiply_codes(const Method& method, operations::CodeFormat format, const at::Tensor& x,
                          const LocalShard& held) {
  const operations::FileCodes codes{format, held.parts[0], held.parts[1]};
  if (held.cut || !operations::can_multiply_codes(x, codes)) return method.Method::multiply(x, held);
  return operations::code_product(x, codes);
}

class Fp8 : public Method {
 public:
  explicit Fp8(QuantizeOptions settings) : settings_(std::move(settings)) {}

  QuantizeOptions settings() const override { return settings_; }

  std::vector<Part> parts(int64_t, int64_t in) const override {
    if (settings_.group_size == 0)
      return {{"weight", uint8, {{Of::Rows}, {Of::Columns}}}, {"weight.scale", float32, {{Of::Rows}}}};
    check_group(settings_, 1, in);
    return {{"weight", uint8, {{Of::Rows}, {Of::Columns}}},
            {"weight.scale", float32, {{Of::Rows}, {Of::Columns, settings_.group_size}}}};
  }

  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics*) const override {
    const at::Tensor groups = grouped(matrix.contiguous());
    at::Tensor scale = groups.abs().amax({-1}).div_(kLargestFp8);
    scale.masked_fill_(scale.eq(0), 1.0);
    const at::Tensor codes = (groups / scale.unsqueeze(-1)).clamp_(-kLargestFp8, kLargestFp8).to(at::kFloat8_e4m3fn);
    return {codes.view(at::kByte).view(matrix.sizes()), settings_.group_size == 0 ? scale.view({-1}) : scale};
  }

  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override {
    if (const at::Tensor values =
            operations::unpack_codes({operations::CodeFormat::kFp8, held.parts[0], held.parts[1]}, begin, end);
        values.defined())
      return values;
    const at::Tensor bytes = held.parts[0].narrow(0, begin, end - begin).contiguous();
    const at::Tensor values = bytes.view(at::kFloat8_e4m3fn).to(at::kFloat);
    const at::Tensor scale = held.parts[1].narrow(0, begin, end - begin);
    if (settings_.group_size == 0) return values.mul_(scale.unsqueeze(1));
    grouped(values).mul_(scale.unsqueeze(-1));
    return values;
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    return multiply_codes(*this, operations::CodeFormat::kFp8, x, held);
  }

 private:
  // [rows, groups, columns of a group], of the same memory.
  at::Tensor grouped(const at::Tensor& matrix) const {
    return matrix.view({matrix.size(0), -1, settings_.group_size == 0 ? matrix.size(1) : settings_.group_size});
  }

  QuantizeOptions settings_;
};

class Mxfp4 : public Method {
 public:
  QuantizeOptions settings() const override { return {.method = "mxfp4", .group_size = kMxBlock}; }

  std::vector<Part> parts(int64_t, int64_t in) const override {
    check_group(settings(), kMxBlock, in);
    return {{"weight", uint8, {{Of::Rows}, {Of::Columns, 2}}},
            {"weight.exponents", uint8, {{Of::Rows}, {Of::Columns, kMxBlock}}}};
  }

  // The scale is the power of two that the largest value has, less that of 4, the largest of the 4-bit floats.
  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics*) const override {
    const at::Tensor blocks = matrix.contiguous().view({matrix.size(0), -1, kMxBlock});
    const at::Tensor exponents = blocks.abs().amax({-1}).log2().floor().sub_(2).clamp_(-127, 127).to(at::kInt);
    const at::Tensor scaled = at::ldexp(blocks, -exponents.unsqueeze(-1)).contiguous();
    const at::Tensor middles = at::tensor({0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F});
    // Ties go to the even code.
    const at::Tensor below = at::bucketize(scaled.abs(), middles, /*out_int32=*/true);
    const at::Tensor above = at::bucketize(scaled.abs(), middles, /*out_int32=*/true, /*right=*/true);
    const at::Tensor codes =
        at::where(below.bitwise_and(1).eq(0), below, above).bitwise_or(scaled.signbit().to(at::kInt) * 8);
    const at::Tensor pairs = codes.to(at::kByte).view({matrix.size(0), -1, 2});
    return {pairs.select(2, 0).bitwise_or(pairs.select(2, 1).bitwise_left_shift(4)), (exponents + 127).to(at::kByte)};
  }

  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override {
    if (const at::Tensor values =
            operations::unpack_codes({operations::CodeFormat::kMxfp4, held.parts[0], held.parts[1]}, begin, end);
        values.defined())
      return values;
    return mxfp4_values(held.parts[0].narrow(0, begin, end - begin), held.parts[1].narrow(0, begin, end - begin));
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    return multiply_codes(*this, operations::CodeFormat::kMxfp4, x, held);
  }
};

}  // namespace

at::Tensor fp4_values(const at::Tensor& bytes) {
  return at::embedding(constant_on(fp4_pairs(), bytes.device()), bytes.to(at::kInt)).flatten(-2);
}

at::Tensor mxfp4_values(const at::Tensor& bytes, const at::Tensor& exponents) {
  const at::Tensor blocks = fp4_values(bytes).unflatten(-1, {-1, kMxBlock});
  return at::ldexp(blocks, exponents.to(at::kInt).sub_(127).unsqueeze(-1)).flatten(-2);
}

std::shared_ptr<const Method> make_fp8(const QuantizeOptions& settings) { return std::make_shared<Fp8>(settings); }

std::shared_ptr<const Method> make_mxfp4(const QuantizeOptions& settings) {
  require<ConfigError>(settings.group_size == 0 || settings.group_size == kMxBlock, "[quantize] mxfp4 has groups of ",
                       kMxBlock, "; got ", settings.group_size, ".");
  return std::make_shared<Mxfp4>();
}

}  // namespace easydel::quantization
