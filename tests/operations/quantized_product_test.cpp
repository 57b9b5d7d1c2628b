#include "easydel/operations/quantized/packed_product.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/operations/kernels/cpu/amx/tile_product.h"
#include "easydel/operations/kernels/cpu/quantized_kernels.h"
#include "easydel/operations/quantized/arguments.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using kernels::PackedArgs;
using kernels::QuantizedKernels;
using testing::ThrowsMessage;

std::vector<const QuantizedKernels*> tables() {
  const kernels::QuantizedKernelList list = kernels::quantized_available();
  return {list.tables, list.tables + list.count};
}

// Dense, but one element into its memory: no vector of it is aligned.
Tensor shifted(const Tensor& t) {
  const Tensor copy = at::empty({t.numel() + 1}, t.options()).narrow(0, 1, t.numel()).view(t.sizes());
  return copy.copy_(t);
}

PackedCodes random_codes(PackedFormat format, int64_t out, int64_t in, int64_t group = 0,
                         at::ScalarType scales = at::kFloat) {
  PackedCodes packed;
  packed.format = format;
  if (format == PackedFormat::kInt8) {
    packed.codes = shifted(at::randint(-128, 128, {out, in}, at::kChar));
    packed.scales = shifted(at::rand({out}) + 0.1);
    return packed;
  }
  packed.codes = shifted(at::randint(0, 256, {out, in / 2}, at::kByte));
  if (scales == at::kByte) {
    packed.scales = shifted(at::randint(0, 256, {out, in / group}, at::kByte));
    packed.scale_map = at::rand({256}) - 0.3;
    packed.outer_block = 7;
    packed.outer_scales = at::rand({(out * in / group + 6) / 7});
    packed.scale_offset = at::full({1}, 0.25F);
  } else {
    packed.scales = shifted((at::rand({out, in / group}) - 0.4).to(scales));
  }
  return packed;
}

// Dequantizes one code at a time, by the definition in the header.
Tensor plain_values(const PackedCodes& packed) {
  const int64_t out = packed.out(), in = packed.in();
  const Tensor values = at::empty({out, in}, at::kDouble);
  auto to = values.accessor<double, 2>();
  for (int64_t row = 0; row < out; ++row) {
    for (int64_t i = 0; i < in; ++i) {
      if (packed.format == PackedFormat::kInt8) {
        to[row][i] = packed.codes.const_data_ptr<int8_t>()[row * in + i] *
                     static_cast<double>(packed.scales.const_data_ptr<float>()[row]) / 127;
        continue;
      }
      const bool nf4 = packed.format == PackedFormat::kNf4;
      const int64_t byte = nf4 ? i / 2 : i / 32 * 16 + i % 16;
      const bool high = nf4 ? i % 2 == 0 : i % 32 >= 16;
      const int code = packed.codes.const_data_ptr<uint8_t>()[row * in / 2 + byte] >> (high ? 4 : 0) & 15;
      const int64_t place = row * packed.scales.size(1) + i / packed.group();
      double scale = 0;
      if (packed.scales.scalar_type() == at::kByte) {
        scale = static_cast<double>(
                    packed.scale_map.const_data_ptr<float>()[packed.scales.const_data_ptr<uint8_t>()[place]]) *
                    packed.outer_scales.const_data_ptr<float>()[place / packed.outer_block] +
                packed.scale_offset.item<float>();
      } else {
        scale = packed.scales.flatten()[place].item<double>();
      }
      to[row][i] = scale * (nf4 ? nf4_values()[code] : code - 8);
    }
  }
  return values;
}

// Within `part` of the sum of the magnitudes of the terms.
testing::AssertionResult is_product(const Tensor& y, const Tensor& x, const Tensor& values, double part,
                                    const Tensor& bias = {}) {
  const Tensor wide = x.to(at::kDouble), want = at::linear(wide, values, bias.defined() ? bias.to(at::kDouble) : bias);
  const Tensor size = at::linear(wide.abs(), values.abs()) + (bias.defined() ? bias.abs() : at::zeros({1}));
  const Tensor excess = (y.to(at::kDouble) - want).abs() - part * size;
  if (y.sizes() == want.sizes() && (excess <= 1e-30).all().item<bool>()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "too far by " << excess.max().item<double>() << " in " << y.sizes();
}

struct Case {
  PackedCodes packed;
  std::string name;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t in : {1, 15, 16, 31, 33, 64, 100, 577})
    for (const int64_t out : {1, 7})
      all.push_back({random_codes(PackedFormat::kInt8, out, in), concat("int8 ", out, " x ", in)});
  // Wider and higher than a panel of several vectors' kernels.
  all.push_back({random_codes(PackedFormat::kInt8, 61, 1607), "int8 61 x 1607"});
  all.push_back({random_codes(PackedFormat::kNf4, 61, 1600, 320), "nf4 61 x 1600"});
  all.push_back({random_codes(PackedFormat::kInt4, 61, 1600, 320), "int4 61 x 1600"});
  for (const PackedFormat format : {PackedFormat::kNf4, PackedFormat::kInt4}) {
    for (const auto& [in, group] : {std::pair<int64_t, int64_t>{32, 32}, {96, 32}, {96, 96}, {128, 64}, {640, 128}}) {
      for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kByte}) {
        all.push_back(
            {random_codes(format, 9, in, group, type), concat(format == PackedFormat::kNf4 ? "nf4 9 x " : "int4 9 x ",
                                                              in, " in groups of ", group, " ", c10::toString(type))});
      }
    }
  }
  return all;
}

TEST(QuantizedKernels, TheFastestInstructionSetIsActive) { EXPECT_EQ(&kernels::quantized(), tables().back()); }

TEST(QuantizedKernels, EachInstructionSetMultipliesFloatsAsPlainLoopsDo) {
  at::manual_seed(0);
  for (const Case& c : cases()) {
    const PackedCodes& packed = c.packed;
    const Tensor values = plain_values(packed), bias = at::randn({packed.out()});
    for (const QuantizedKernels* table : tables()) {
      for (int64_t vectors = 1; vectors <= 9; ++vectors) {
        SCOPED_TRACE(concat(table->instruction_set, ", ", c.name, ", ", vectors));
        const Tensor x = shifted(at::randn({vectors, packed.in()})), parted = at::empty_like(x);
        const Tensor y = at::full({vectors, packed.out() + 3}, -5.0);
        PackedArgs args = arguments_of(packed);
        const bool nf4 = packed.format == PackedFormat::kNf4;
        if (nf4) table->part_pairs(x.const_data_ptr<float>(), parted.mutable_data_ptr<float>(), x.numel());
        args.x = (nf4 ? parted : x).const_data_ptr<float>();
        args.y = y.mutable_data_ptr<float>();
        args.y_row = packed.out() + 3;
        args.vectors = vectors;
        args.bias = vectors % 2 ? bias.const_data_ptr<float>() : nullptr;
        std::vector<float> scratch(static_cast<std::size_t>(packed.out() * args.scales.groups));
        const auto kernel = packed.format == PackedFormat::kInt8 ? table->int8_times_float : table->nibbles_times_float;
        const int64_t middle = packed.out() / 2;
        kernel(args, 0, middle, scratch.data());
        kernel(args, middle, packed.out(), scratch.data());
        EXPECT_TRUE(is_product(y.narrow(1, 0, packed.out()), x, values, 1e-6, vectors % 2 ? bias : Tensor()));
        EXPECT_TRUE((y.narrow(1, packed.out(), 3) == -5.0).all().item<bool>());
      }
    }
  }
}

TEST(QuantizedKernels, EachInstructionSetMultipliesRoundedXAsPlainLoopsDo) {
  at::manual_seed(1);
  std::vector<Case> all = cases();
  // More groups than kernels of int8 vectors take at a time; and fewer rows than fill their last registers, with groups
  // that do not end where their panels do.
  all.push_back({random_codes(PackedFormat::kInt4, 3, 67 * 32, 32, at::kHalf), "int4 3 x 2144 in groups of 32"});
  all.push_back({random_codes(PackedFormat::kInt4, 69, 65 * 64, 64, at::kHalf), "int4 69 x 4160 in groups of 64"});
  all.push_back({random_codes(PackedFormat::kInt4, 33, 2112, 2112, at::kHalf), "int4 33 x 2112 in one group"});
  for (const Case& c : all) {
    const PackedCodes& packed = c.packed;
    if (packed.format == PackedFormat::kNf4) continue;
    const Tensor values = plain_values(packed), bias = at::randn({packed.out()});
    const bool is_int8 = packed.format == PackedFormat::kInt8;
    const int64_t in = packed.in();
    for (const int64_t groups : {is_int8 ? int64_t{1} : packed.scales.size(1), is_int8 && in == 64 ? int64_t{2} : 0}) {
      if (groups == 0) continue;
      for (const QuantizedKernels* table : tables()) {
        for (const int64_t vectors : {1, 2, 3, 4, 9, 10}) {
          const bool one_scale = vectors % 2;
          SCOPED_TRACE(concat(table->instruction_set, ", ", c.name, ", ", groups, ", ", vectors));
          const Tensor x = at::randn({vectors, in}) * at::pow(10.0, at::arange(vectors) % 3 * 3 - 3).unsqueeze(1);
          const Tensor codes = shifted(at::zeros({vectors, in}, at::kChar)), scales = at::empty({vectors, groups}),
                       starts = at::empty({vectors, groups}, at::kInt), y = at::full({vectors, packed.out() + 3}, -5.0);
          kernels::QuantizeArgs quantize;
          quantize.x = x.const_data_ptr<float>();
          quantize.width = in;
          quantize.groups = groups;
          quantize.one_scale = one_scale;
          quantize.for_nibbles = !is_int8;
          quantize.codes = codes.mutable_data_ptr<int8_t>();
          quantize.scales = scales.mutable_data_ptr<float>();
          quantize.starts = starts.mutable_data_ptr<int32_t>();
          table->quantize_rows(quantize, 0, vectors);
          const Tensor grouped = x.view({vectors, groups, -1});
          const Tensor largest = one_scale ? x.abs().amax(1, true).expand({vectors, groups}) : grouped.abs().amax(2);
          EXPECT_TRUE(is_close(scales, largest / 127, {1e-6, 0}));
          const Tensor rounded =
              codes.to(at::kDouble).view({vectors, groups, -1}) * scales.to(at::kDouble).unsqueeze(2);
          EXPECT_TRUE(((rounded - grouped).abs() <= scales.unsqueeze(2) * 0.50001).all().item<bool>());

          PackedArgs args = arguments_of(packed);
          args.x_codes = codes.const_data_ptr<int8_t>();
          args.x_scales = scales.const_data_ptr<float>();
          args.x_starts = starts.const_data_ptr<int32_t>();
          args.x_groups = groups;
          args.vectors = vectors;
          args.y = y.mutable_data_ptr<float>();
          args.y_row = packed.out() + 3;
          const bool has_bias = vectors % 3 != 0;
          args.bias = has_bias ? bias.const_data_ptr<float>() : nullptr;
          std::vector<float> scratch(static_cast<std::size_t>(packed.out() * args.scales.groups));
          const auto kernel = is_int8 ? table->int8_times_int8 : table->nibbles_times_int8;
          const int64_t middle = packed.out() / 2;
          kernel(args, 0, middle, scratch.data());
          kernel(args, middle, packed.out(), scratch.data());
          EXPECT_TRUE(is_product(y.narrow(1, 0, packed.out()), rounded.view({vectors, in}), values, 2e-6,
                                 has_bias ? bias : Tensor()));
          EXPECT_TRUE((y.narrow(1, packed.out(), 3) == -5.0).all().item<bool>());
        }
      }
    }
  }
}

TEST(QuantizedKernels, EachInstructionSetUnpacksTheSameValues) {
  at::manual_seed(2);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const PackedCodes& packed = c.packed;
    EXPECT_TRUE(is_close(unpack(packed), plain_values(packed), {3e-7, 1e-7}));
    const bool is_int8 = packed.format == PackedFormat::kInt8;
    std::vector<Tensor> all;
    for (const QuantizedKernels* table : tables()) {
      PackedArgs args = arguments_of(packed);
      all.push_back(at::empty({packed.out(), packed.in()}));
      args.y = all.back().mutable_data_ptr<float>();
      std::vector<float> scratch(static_cast<std::size_t>(packed.out() * args.scales.groups));
      (is_int8 ? table->unpack_int8 : table->unpack_nibbles)(args, 0, packed.out(), scratch.data());
      EXPECT_TRUE(at::equal(all.back(), all.front())) << table->instruction_set;
    }
  }
}

TEST(PackedProduct, AFewVectorsAndManyGiveTheSameInEveryType) {
  at::manual_seed(3);
  for (const Case& c : cases()) {
    const PackedCodes& packed = c.packed;
    const Tensor values = plain_values(packed), bias = at::randn({packed.out()});
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int64_t rows : {2, 70, 140}) {
        SCOPED_TRACE(concat(c.name, ", ", rows, " of ", c10::toString(type)));
        const Tensor x = at::randn({rows / 2, 2, packed.in()}).to(type);
        const Tensor y = packed_product(x, packed, rows == 2 ? bias : Tensor());
        EXPECT_EQ(y.scalar_type(), type);
        const double part = type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 8e-3;
        EXPECT_TRUE(is_product(y, x, values, part, rows == 2 ? bias : Tensor()));
      }
    }
  }
}

TEST(PackedProduct, TilesAreAsExactAsFloat32) {
  if (!kernels::tile_kernels()) GTEST_SKIP() << "needs a CPU with AMX";
  at::manual_seed(7);
  for (const int64_t rows : {8, 16, 17, 32, 100}) {
    for (const int64_t out : {1, 31, 97, 600}) {
      for (const PackedCodes& packed :
           {random_codes(PackedFormat::kInt8, out, 192), random_codes(PackedFormat::kInt4, out, 192, 32, at::kHalf),
            random_codes(PackedFormat::kInt4, out, 192, 64)}) {
        SCOPED_TRACE(concat(rows, " times ", out));
        const Tensor x = at::randn({rows, 192}) * at::randn({rows, 192}).exp(), bias = at::randn({out});
        const Tensor values = plain_values(packed), y = packed_product(x, packed, bias).to(at::kDouble);
        const Tensor want = at::linear(x.to(at::kDouble), values, bias.to(at::kDouble));
        const Tensor sizes = at::linear(x.to(at::kDouble).abs(), values.abs(), bias.to(at::kDouble).abs());
        EXPECT_TRUE(((y - want).abs() <= 2e-6 * sizes).all().item<bool>());
      }
    }
  }
}

TEST(PackedProduct, SeveralMatricesOfOneXEqualEachByItself) {
  at::manual_seed(4);
  const std::vector<PackedCodes> packed = {random_codes(PackedFormat::kInt8, 300, 192),
                                           random_codes(PackedFormat::kNf4, 1, 192, 64),
                                           random_codes(PackedFormat::kInt4, 1111, 192, 32, at::kHalf),
                                           random_codes(PackedFormat::kInt4, 50, 192, 96, at::kHalf)};
  std::vector<PackedMap> maps;
  for (const PackedCodes& p : packed) maps.push_back({&p, p.out() == 300 ? at::randn({300}) : Tensor()});
  for (const int64_t rows : {1, 3, 33}) {
    const Tensor x = at::randn({rows, 192});
    const std::vector<Tensor> together = packed_products(x, maps);
    for (std::size_t i = 0; i < maps.size(); ++i)
      EXPECT_TRUE(at::equal(together[i], packed_product(x, packed[i], maps[i].bias)));
  }
}

TEST(PackedProduct, RoundedActivationsStayWithinTheirBound) {
  at::manual_seed(5);
  for (const Case& c : cases()) {
    const PackedCodes& packed = c.packed;
    if (packed.format == PackedFormat::kNf4) continue;
    const Tensor values = plain_values(packed);
    for (const Activations way : {Activations::kInt8PerToken, Activations::kInt8PerGroup}) {
      for (const int64_t rows : {3, 40, 140}) {
        SCOPED_TRACE(concat(c.name, ", ", rows));
        const Tensor x = at::randn({rows, packed.in()});
        const Tensor y = packed_product(x, packed, {}, way);
        // Half a step of max|x| / 127 for each element of x.
        const Tensor bound = at::linear((x.abs().amax(1, true) / 254).expand_as(x).to(at::kDouble), values.abs());
        const Tensor error = (y.to(at::kDouble) - at::linear(x.to(at::kDouble), values)).abs();
        EXPECT_TRUE((error <= bound * 1.001 + 1e-6).all().item<bool>());
        EXPECT_TRUE(packed.in() < 30 || (error > 0).any().item<bool>());
      }
    }
  }
}

TEST(PackedProduct, PropagatesNonFiniteValues) {
  const PackedCodes packed = random_codes(PackedFormat::kInt8, 4, 64);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Tensor x = at::ones({2, 64});
    x[1][7] = bad;
    for (const Activations way : {Activations::kFloat, Activations::kInt8PerToken, Activations::kInt8PerGroup}) {
      const Tensor y = packed_product(x, packed, {}, way);
      EXPECT_TRUE(at::isfinite(y[0]).all().item<bool>());
      EXPECT_FALSE(at::isfinite(y[1]).any().item<bool>());
    }
  }
  EXPECT_TRUE((packed_product(at::zeros({1, 64}), packed, {}, Activations::kInt8PerToken) == 0).all().item<bool>());
}

TEST(PackedProduct, BitsandbytesAndGgufHaveTheSameValues) {
  const TemporaryDirectory directory;
  run_python("quantized_peer.py", {(directory / "packed.safetensors").string()});
  const auto file = SafetensorsFile::open(directory / "packed.safetensors");
  const auto part = [&](const std::string& name) { return file->tensor(name).clone(); };
  at::manual_seed(6);
  const Tensor x = at::randn({2, 576});
  for (const auto& [name, format] : {std::pair<std::string, PackedFormat>{"nf4", PackedFormat::kNf4},
                                     {"nf4_nested", PackedFormat::kNf4},
                                     {"int8", PackedFormat::kInt8},
                                     {"int4", PackedFormat::kInt4}}) {
    SCOPED_TRACE(name);
    PackedCodes packed;
    packed.format = format;
    packed.codes = part(name + ".codes");
    packed.scales = part(name + ".scales");
    if (name == "nf4_nested") {
      packed.scale_map = part(name + ".map");
      packed.outer_scales = part(name + ".outer");
      packed.scale_offset = part(name + ".offset").view({1});
    }
    const Tensor values = part(name + ".values");
    if (format == PackedFormat::kInt8) {
      EXPECT_TRUE(is_close(unpack(packed), values, {2e-7, 0}));  // they divide by 127 in a different order
    } else {
      EXPECT_TRUE(at::equal(unpack(packed), values));
    }
    EXPECT_TRUE(is_product(packed_product(x, packed), x, values.to(at::kDouble), 1e-6));
  }
  const PackedCodes ours = pack_int4(part("weight"), 32);
  EXPECT_TRUE(at::equal(ours.codes, part("int4.codes")));
  EXPECT_TRUE(at::equal(ours.scales, part("int4.scales")));
}

TEST(PackInt4, StaysWithinItsBound) {
  at::manual_seed(7);
  const Tensor weight = at::randn({20, 384});
  for (const int64_t group : {32, 64, 128, 384}) {
    const PackedCodes packed = pack_int4(weight, group);
    EXPECT_EQ(packed.group(), group);
    const Tensor grouped = weight.view({20, -1, group}), got = unpack(packed).view_as(grouped);
    const Tensor scale = grouped.abs().amax(2, true) / 8;
    const Tensor steps = (got - grouped).abs() / scale;
    EXPECT_LE(steps.max().item<double>(), 1.0 + 8 * 0x1p-11);
    // Half a step wherever the code was not clamped.
    const Tensor inside = (grouped.abs() <= scale * 7).logical_and(steps > 0.5 + 8 * 0x1p-11);
    EXPECT_FALSE(inside.any().item<bool>());
  }
}

TEST(PackInt4, RefusesAGroupThatDoesNotDivide) {
  EXPECT_THAT(
      [] { pack_int4(at::zeros({2, 96}), 64); },
      ThrowsMessage<ShapeError>("[pack_int4] a group must be a multiple of 32 and divide the row of 96; got 64."));
  EXPECT_THAT(
      [] { pack_int4(at::zeros({2, 96}), 24); },
      ThrowsMessage<ShapeError>("[pack_int4] a group must be a multiple of 32 and divide the row of 96; got 24."));
}

TEST(PackedProduct, RejectsMismatchedShapes) {
  PackedCodes packed = random_codes(PackedFormat::kInt4, 4, 64, 32, at::kHalf);
  EXPECT_THAT([&] { packed_product(at::zeros({2, 32}), packed); },
              ThrowsMessage<ShapeError>("[packed_product] x's last dimension must be 64; got [2, 32]."));
  EXPECT_THAT([&] { packed_product(at::zeros({2, 64}), packed, at::zeros({5})); },
              ThrowsMessage<ShapeError>("[packed_product] bias must be [4]; got [5]."));
  EXPECT_THAT(
      [&] { packed_product(at::zeros({2, 64}, at::kLong), packed); },
      ThrowsMessage<ShapeError>("[packed_product] x must be Float, BFloat16 or Half on the CPU; got Long on cpu."));
  packed.scales = at::zeros({4, 4}, at::kHalf);
  EXPECT_THAT([&] { packed_product(at::zeros({2, 64}), packed); },
              ThrowsMessage<ShapeError>("[PackedCodes] scales must be [4, 64 / group], with groups that are a multiple "
                                        "of 32 and divide a row; got [4, 4]."));
  packed = random_codes(PackedFormat::kNf4, 4, 64, 32, at::kByte);
  packed.outer_scales = at::zeros({1});
  EXPECT_THAT(
      [&] { packed_product(at::zeros({2, 64}), packed); },
      ThrowsMessage<ShapeError>("[PackedCodes] outer_scales must be Float, one for each 7 of 8 scales; got [1]."));
  packed = random_codes(PackedFormat::kNf4, 4, 64, 32);
  EXPECT_THAT([&] { packed_product(at::zeros({2, 64}), packed, {}, Activations::kInt8PerToken); },
              ThrowsMessage<NotSupportedError>("[packed_product] nf4 weights support float activations only."));
}

}  // namespace
}  // namespace easydel::operations
