#include "easydel/quantization/methods/gguf_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/io/gguf/gguf_dequantize.h"
#include "easydel/operations/quantized/block_product.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::quantization {
namespace {

using operations::BlockFormat;
using Of = PartDim::Of;

struct Known {
  std::string_view type;
  BlockFormat format;
};
constexpr std::array<Known, 4> kKnown{{{"Q8_0", BlockFormat::kQ8_0},
                                       {"Q4_K", BlockFormat::kQ4_K},
                                       {"Q5_K", BlockFormat::kQ5_K},
                                       {"Q6_K", BlockFormat::kQ6_K}}};

at::Tensor halves(const at::Tensor& blocks, int64_t at) {
  return blocks.narrow(-1, at, 2).contiguous().view(at::kHalf).to(at::kFloat);
}
at::Tensor bytes(const at::Tensor& blocks, int64_t at, int64_t count) {
  return blocks.narrow(-1, at, count).to(at::kInt);
}
at::Tensor signed_bytes(const at::Tensor& blocks, int64_t at, int64_t count) {
  return blocks.narrow(-1, at, count).contiguous().view(at::kChar).to(at::kFloat);
}
at::Tensor shifted(const at::Tensor& x, std::initializer_list<int64_t> bits, int64_t mask) {
  std::vector<at::Tensor> all;
  for (const int64_t by : bits) all.push_back(x.bitwise_right_shift(by).bitwise_and_(mask));
  return at::stack(all, -2);
}

// Codes [..., 8, 32] of Q4_K and Q5_K with their scales and minima.
at::Tensor with_minima(const at::Tensor& blocks, const at::Tensor& codes) {
  const at::Tensor a = bytes(blocks, 4, 4), b = bytes(blocks, 8, 4), c = bytes(blocks, 12, 4);
  const at::Tensor scales =
      at::cat({a.bitwise_and(63), c.bitwise_and(15).bitwise_or(a.bitwise_right_shift(6).bitwise_left_shift(4))}, -1);
  const at::Tensor minima = at::cat(
      {b.bitwise_and(63), c.bitwise_right_shift(4).bitwise_or(b.bitwise_right_shift(6).bitwise_left_shift(4))}, -1);
  const at::Tensor scale = halves(blocks, 0) * scales.to(at::kFloat), min = halves(blocks, 2) * minima.to(at::kFloat);
  return (scale.unsqueeze(-1) * codes.to(at::kFloat)).sub_(min.unsqueeze(-1)).flatten(-2);
}

// [..., 4, 2, 32] nibbles of 128 bytes as eight groups of 32.
at::Tensor nibbles(const at::Tensor& blocks, int64_t at) {
  return shifted(bytes(blocks, at, 128).unflatten(-1, {4, 32}), {0, 4}, 15).flatten(-3, -2);
}

class GgufBlocks : public Method {
 public:
  GgufBlocks(const GgmlType& type, BlockFormat format) : type_(type), format_(format) {}

  QuantizeOptions settings() const override { return {.method = "gguf"}; }
  bool can_quantize() const override { return false; }

  std::vector<Part> parts(int64_t, int64_t in) const override {
    require<ConfigError>(in % type_.block_elements == 0, "[quantize] blocks of ", type_.name, " have ",
                         type_.block_elements, " columns, which must divide those of the matrix; got ", in, ".");
    return {{"weight", uint8, {{Of::Rows}, {Of::Columns, type_.block_elements}, {Of::Neither, type_.block_bytes}}}};
  }

  std::vector<at::Tensor> quantize(const at::Tensor&, const ChannelStatistics*) const override {
    fail<NotSupportedError>("[quantize] ", type_.name, " comes from GGUF files and cannot be created here.");
  }

  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override {
    const at::Tensor rows = held.parts[0].narrow(0, begin, end - begin);
    if (!rows.is_cpu()) return decode_blocks(type_, rows).flatten(1);
    const at::Tensor blocks = rows.contiguous(), out = at::empty({rows.size(0), rows.size(1) * type_.block_elements});
    const auto* from = reinterpret_cast<const std::byte*>(blocks.const_data_ptr<uint8_t>());
    float* to = out.mutable_data_ptr<float>();
    operations::for_rows(rows.size(0) * rows.size(1), type_.block_elements, [&](int64_t first, int64_t last) {
      gguf_dequantize(type_, from + first * type_.block_bytes, last - first, to + first * type_.block_elements);
    });
    return out;
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    const bool few = x.size(-1) > 0 && x.numel() <= operations::most_block_vectors() * x.size(-1);
    if (held.cut || !few || !x.is_cpu() || !held.parts[0].is_cpu()) return Method::multiply(x, held);
    return operations::block_product(x, held.parts[0], format_);
  }

 private:
  const GgmlType& type_;
  BlockFormat format_;
};

}  // namespace

std::shared_ptr<const Method> find_gguf_blocks(int64_t block_elements, int64_t block_bytes) {
  for (const Known& known : kKnown) {
    const GgmlType& type = *find_ggml_type(known.type);
    if (type.block_elements == block_elements && type.block_bytes == block_bytes)
      return std::make_shared<GgufBlocks>(type, known.format);
  }
  return nullptr;
}

at::Tensor decode_blocks(const GgmlType& type, const at::Tensor& blocks) {
  if (type.name == "Q8_0") return halves(blocks, 0) * signed_bytes(blocks, 2, 32);
  if (type.name == "Q4_K") return with_minima(blocks, nibbles(blocks, 16));
  if (type.name == "Q5_K") {
    const at::Tensor fifth = shifted(bytes(blocks, 16, 32), {0, 1, 2, 3, 4, 5, 6, 7}, 1);
    return with_minima(blocks, nibbles(blocks, 48).bitwise_or(fifth.bitwise_left_shift(4)));
  }
  require<NotSupportedError>(type.name == "Q6_K", "[decode_blocks] ", type.name, " is not known.");
  // Half blocks of four quarters: the nibbles of 64 bytes, and two bits each of 32.
  const at::Tensor low = shifted(bytes(blocks, 0, 128).unflatten(-1, {2, 2, 32}).flatten(-2), {0, 4}, 15);
  const at::Tensor high = shifted(bytes(blocks, 128, 64).unflatten(-1, {2, 32}), {0, 2, 4, 6}, 3);
  const at::Tensor codes = low.unflatten(-1, {2, 32}).flatten(-3, -2).bitwise_or(high.bitwise_left_shift(4)).sub_(32);
  const at::Tensor scales = halves(blocks, 208) * signed_bytes(blocks, 192, 16);
  return (scales.unsqueeze(-1) * codes.to(at::kFloat).flatten(-3).unflatten(-1, {16, 16})).flatten(-2);
}

}  // namespace easydel::quantization
