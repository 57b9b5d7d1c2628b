// Codes of published files that are multiplied as they are, beside the matrices that they stand for.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "easydel/operations/kernels/cpu/block_kernels.h"
#include "easydel/operations/quantized/code_product.h"
#include "easydel/quantization/method.h"
#include "easydel/quantization/methods/float_codes.h"
#include "tests/support/tensors.h"

namespace easydel::quantization {
namespace {

using operations::CodeFormat;
using operations::FileCodes;

struct Kind {
  const char* method;
  int64_t group;
  CodeFormat format;
};
const std::vector<Kind> kKinds{{"uint4", 32, CodeFormat::kUint4},
                               {"uint4", 128, CodeFormat::kUint4},
                               {"mxfp4", 32, CodeFormat::kMxfp4},
                               {"fp8", 0, CodeFormat::kFp8},
                               {"fp8", 128, CodeFormat::kFp8}};

constexpr int64_t kCodeRows = 37, kCodeColumns = 1280;

// All codes there are, but for FP8's NaN, and groups of any zero point.
LocalShard random_shard(const Method& method) {
  const at::Tensor matrix = at::randn({kCodeRows, kCodeColumns}) * at::logspace(-3, 0, kCodeColumns) + 0.02;
  LocalShard held{.parts = method.quantize(matrix, nullptr), .out = kCodeRows, .in = kCodeColumns};
  held.rows = {{0, kCodeRows}};
  held.columns = {{0, kCodeColumns}};
  at::Tensor& codes = held.parts[0];
  codes = at::randint(0, 256, codes.sizes(), at::kByte);
  if (method.settings().method == "fp8") codes.masked_fill_(codes.bitwise_and(127).eq(127), 0);
  if (held.parts.size() > 2) held.parts[2] = at::randint(0, 16, held.parts[2].sizes(), at::kByte);
  return held;
}

// What the codes stand for, each weight rounded once.
at::Tensor values_of(const LocalShard& held, CodeFormat format) {
  const at::Tensor &codes = held.parts[0], &scales = held.parts[1];
  if (format == CodeFormat::kMxfp4) return mxfp4_values(codes, scales);
  at::Tensor numbers;
  if (format == CodeFormat::kFp8) {
    numbers = codes.view(at::kFloat8_e4m3fn).to(at::kFloat);
  } else {  // sixteen bytes hold thirty-two columns, the first half in their low bits
    const at::Tensor runs = codes.view({kCodeRows, -1, 16});
    numbers = at::stack({runs.bitwise_and(15), runs.bitwise_right_shift(4)}, 2).flatten(1).to(at::kFloat);
  }
  const at::Tensor groups = numbers.view({kCodeRows, scales.dim() == 1 ? 1 : scales.size(1), -1});
  if (format == CodeFormat::kUint4) groups.sub_(held.parts[2].unsqueeze(-1));
  return groups.mul(scales.to(at::kFloat).view({kCodeRows, -1, 1})).flatten(1);
}

operations::kernels::CodeArgs args_of(const FileCodes& codes) {
  operations::kernels::CodeArgs args;
  args.codes = codes.codes.const_data_ptr<uint8_t>();
  args.row_bytes = codes.codes.size(1);
  args.scales = codes.scales.const_data_ptr();
  args.zeros = codes.zeros.defined() ? codes.zeros.const_data_ptr<uint8_t>() : nullptr;
  args.group = kCodeColumns / codes.groups();
  args.groups = codes.groups();
  return args;
}

TEST(FileCodes, AreUnpackedToTheNumbersThatTheyStandForByEveryKernel) {
  at::manual_seed(3);
  for (const auto& [name, group, format] : kKinds) {
    const auto method = make_method({.method = name, .group_size = group});
    const LocalShard held = random_shard(*method);
    const at::Tensor expected = values_of(held, format);
    const FileCodes codes{format, held.parts[0], held.parts[1], held.parts.size() > 2 ? held.parts[2] : at::Tensor()};
    EXPECT_TRUE(at::equal(method->dequantize(held, 3, 30), expected.narrow(0, 3, 27))) << name;
    const auto list = operations::kernels::blocks_available();
    for (int i = 0; i < list.count; ++i) {
      SCOPED_TRACE(testing::Message() << name << " " << group << ", table " << i);
      const at::Tensor out = at::empty({17, kCodeColumns});
      const auto& table = *list.tables[i];
      const auto kernel = format == CodeFormat::kMxfp4 ? table.unpack_mxfp4
                          : format == CodeFormat::kFp8 ? table.unpack_fp8
                                                       : table.unpack_uint4;
      kernel(args_of(codes), 20, kCodeRows, out.mutable_data_ptr<float>());
      EXPECT_TRUE(at::equal(out, expected.narrow(0, 20, 17)));
    }
  }
}

TEST(FileCodes, AreMultipliedStraightByEveryKernel) {
  at::manual_seed(1);
  for (const auto& [name, group, format] : kKinds) {
    const auto method = make_method({.method = name, .group_size = group});
    const LocalShard held = random_shard(*method);
    const at::Tensor dense = values_of(held, format).to(at::kDouble);
    for (const int64_t vectors : {1, 2, 3, 7, 24}) {
      const at::Tensor x = at::randn({vectors, kCodeColumns}) + 0.3;
      const at::Tensor expected = x.to(at::kDouble).mm(dense.t());
      // What float32 may round: a part of the sum of magnitudes, and zero points cancel.
      const at::Tensor bound = x.to(at::kDouble).abs().mm(dense.abs().t().add(dense.abs().amax())).mul_(1e-6);
      const FileCodes codes{format, held.parts[0], held.parts[1], held.parts.size() > 2 ? held.parts[2] : at::Tensor()};
      ASSERT_TRUE(operations::can_multiply_codes(x, codes));
      EXPECT_TRUE(at::equal(method->multiply(x, held), operations::code_product(x, codes)));
      const bool is_mxfp4 = format == CodeFormat::kMxfp4;
      const at::Tensor read = is_mxfp4 ? x.view({vectors, -1, 16, 2}).transpose(2, 3).contiguous() : x;
      const at::Tensor sums = x.view({vectors, codes.groups(), -1}).sum(2);
      const auto list = operations::kernels::blocks_available();
      for (int i = 0; i < list.count; ++i) {
        SCOPED_TRACE(testing::Message() << name << " " << group << ", " << vectors << " vectors, table " << i);
        const at::Tensor y = at::empty({vectors, kCodeRows});
        operations::kernels::CodeArgs args = args_of(codes);
        args.x = read.const_data_ptr<float>();
        args.sums = sums.const_data_ptr<float>();
        args.vectors = vectors;
        args.y = y.mutable_data_ptr<float>();
        args.y_row = kCodeRows;
        const auto& table = *list.tables[i];
        const auto kernel = is_mxfp4 ? table.mxfp4 : format == CodeFormat::kFp8 ? table.fp8 : table.uint4;
        kernel(args, 0, 20);
        kernel(args, 20, kCodeRows);
        EXPECT_TRUE(((y - expected).abs() <= bound).all().item<bool>());
      }
    }
  }
}

TEST(FileCodes, Fp8NanStaysNanInEveryKernel) {
  const at::Tensor codes = at::arange(256).to(at::kByte).view({8, 32}), scales = at::ones({8});
  const at::Tensor expected = codes.view(at::kFloat8_e4m3fn).to(at::kFloat);
  const auto list = operations::kernels::blocks_available();
  for (int i = 0; i < list.count; ++i) {
    operations::kernels::CodeArgs args;
    args.codes = codes.const_data_ptr<uint8_t>();
    args.row_bytes = args.group = 32;
    args.groups = 1;
    args.scales = scales.const_data_ptr();
    const at::Tensor out = at::empty({8, 32});
    list.tables[i]->unpack_fp8(args, 0, 8, out.mutable_data_ptr<float>());
    EXPECT_TRUE(at::allclose(out, expected, 0, 0, /*equal_nan=*/true)) << i;
  }
}

TEST(FileCodes, GiveNoRowsForNoInputs) {
  for (const auto& [name, group, format] : kKinds) {
    const auto method = make_method({.method = name, .group_size = group});
    const at::Tensor y = method->multiply(at::empty({0, kCodeColumns}), random_shard(*method));
    EXPECT_EQ(y.sizes(), at::IntArrayRef({0, kCodeRows})) << name;
  }
}

TEST(FileCodes, OfOtherGroupsAndOfManyVectorsAreDequantized) {
  at::manual_seed(2);
  const auto odd = make_method({.method = "fp8", .group_size = 20});
  const at::Tensor matrix = at::randn({5, 60});
  const LocalShard held{
      .parts = odd->quantize(matrix, nullptr), .out = 5, .in = 60, .rows = {{0, 5}}, .columns = {{0, 60}}};
  EXPECT_FALSE(operations::can_multiply_codes(at::ones({1, 60}), {CodeFormat::kFp8, held.parts[0], held.parts[1]}));
  const at::Tensor x = at::randn({2, 60}), dense = odd->dequantize(held, 0, 5);
  EXPECT_TRUE(is_close(odd->multiply(x, held), x.mm(dense.t()), {1e-5, 1e-5}));

  const auto method = make_method({.method = "uint4"});
  const LocalShard all = random_shard(*method);
  const FileCodes codes{CodeFormat::kUint4, all.parts[0], all.parts[1], all.parts[2]};
  EXPECT_FALSE(operations::can_multiply_codes(at::ones({500, kCodeColumns}), codes));
  EXPECT_FALSE(operations::can_multiply_codes(at::ones({1, kCodeColumns}, at::kDouble), codes));
  const at::Tensor half = at::randn({3, kCodeColumns}).to(at::kBFloat16);
  EXPECT_EQ(method->multiply(half, all).scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace easydel::quantization
