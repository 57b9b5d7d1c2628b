// Methods on plain matrices: equal to bitsandbytes bit for bit, within the bounds that docs/quantization.md states, and
// with the gradients of the matrix that they stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/quantization/packed_matrix.h"
#include "easydel/quantization/packed_products.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel::quantization {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Bytes, so that -0 and 0 differ.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() == b.numel() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

ChannelStatistics statistics_of(const at::Tensor& x) {
  return {x.abs().mean(0), x.square().mean(0), std::get<0>(x.abs().max(0))};
}

TEST(Methods, GiveTheBitsOfBitsandbytes) {
  const TemporaryDirectory directory;
  const char* seed = std::getenv("EASYDEL_QUANTIZATION_SEED");
  run_python("bitsandbytes_peer.py", {(directory / "peer.safetensors").string(), seed ? seed : "0"});
  const auto file = SafetensorsFile::open(directory / "peer.safetensors");
  int compared = 0;
  for (const std::string& name : file->names()) {
    if (!name.ends_with(".matrix")) continue;
    const std::string prefix = name.substr(0, name.size() - 6);
    SCOPED_TRACE(prefix);
    const auto theirs = [&](const std::string& part) { return file->tensor(prefix + part); };
    const at::Tensor matrix = theirs("matrix").to(at::kFloat);
    if (prefix.starts_with("8bit")) {
      const auto parts = make_method({.method = "8bit"})->quantize(matrix, nullptr);
      EXPECT_TRUE(same_bits(parts[0], theirs("weight")));
      EXPECT_TRUE(same_bits(parts[1], theirs("SCB")));
      ++compared;
      continue;
    }
    // nf4.<case>.<group>.<nested>.
    const bool nested = prefix.ends_with(".1.");
    const int64_t group = std::stoll(prefix.substr(prefix.find('.', 4) + 1));
    const auto method = make_method({.method = "nf4", .group_size = group, .double_quant = nested});
    const auto parts = method->quantize(matrix, nullptr);
    EXPECT_TRUE(same_bits(parts[0], theirs("weight")));
    EXPECT_TRUE(same_bits(parts[1], theirs("absmax")));
    if (nested) {
      EXPECT_TRUE(same_bits(parts[2], theirs("nested_absmax")));
      EXPECT_EQ(parts[3].item<float>(), theirs("offset").item<float>());
    }
    const LocalShard held{.parts = parts,
                          .out = matrix.size(0),
                          .in = matrix.size(1),
                          .rows = {{0, matrix.size(0)}},
                          .columns = {{0, matrix.size(1)}}};
    // Their result is rounded to the type that the matrix was of.
    const at::Tensor dense = method->dequantize(held, 0, matrix.size(0)).to(theirs("matrix").scalar_type());
    EXPECT_TRUE(same_bits(dense.to(at::kFloat), theirs("dense")));
    ++compared;
  }
  EXPECT_EQ(compared, 4 * 3 * 7);
}

struct Case {
  std::string method;
  int64_t group = 0;
  bool nested = false;
};
const std::vector<Case> kCases{
    {"8bit"}, {"nf4", 64}, {"nf4", 32, true}, {"nf4", 128, true}, {"int4"},      {"int4", 64}, {"a8bit"},
    {"a8q"},  {"a4q"},     {"fp8"},           {"fp8", 128},       {"mxfp4", 32}, {"uint4"},    {"uint4", 64}};

// The largest |value| of each group of columns, repeated for each column.
at::Tensor group_largest(const at::Tensor& matrix, int64_t group) {
  const at::Tensor groups = matrix.abs().view({matrix.size(0), -1, group});
  return groups.amax({2}, true).expand_as(groups).reshape(matrix.sizes());
}

// What docs/quantization.md promises for |W - W'|, element by element.
at::Tensor bound_of(const Case& c, const at::Tensor& matrix, const std::vector<at::Tensor>& parts, int64_t group) {
  constexpr double kRounding = 1.0001;  // of float32 arithmetic
  if (c.method == "8bit" || c.method == "a8q") return parts[1].unsqueeze(1).expand_as(matrix) * (kRounding / 254);
  if (c.method == "a8bit") return parts[1].unsqueeze(1) * (kRounding / 254) / parts[2];
  const at::Tensor largest = group_largest(matrix, group > 0 ? group : matrix.size(1));
  if (c.method == "nf4") {
    // Half of the widest gap of the table; with double quantization the scale itself is off.
    at::Tensor bound = largest * (kRounding * (1 - 0.6961928009986877) / 2);
    if (c.nested) {
      const at::Tensor offset = parts[3];
      bound = bound + (largest - offset).abs().amax() * (0.0141 / 2 * kRounding);
    }
    return bound;
  }
  // Half a step of three bits after the first one, or of the smallest numbers.
  if (c.method == "fp8") return matrix.abs() * (kRounding / 16) + largest * (kRounding / 448 / 1024);
  if (c.method == "mxfp4") return largest * (kRounding / 4);
  if (c.method == "uint4") return largest * (2 * kRounding / 15);  // a step, for the zero point is rounded too
  return largest * (kRounding / 8) + 1e-7;                         // int4, a4q
}

TEST(Methods, StayWithinTheStatedBounds) {
  at::manual_seed(3);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.method + " " + std::to_string(c.group) + (c.nested ? " nested" : ""));
    for (const int power : {1, 3}) {
      const at::Tensor matrix = at::randn({70, 256}).pow(power) * 0.05;
      const at::Tensor x = at::randn({40, 256}) * at::logspace(-1, 1, 256);
      const ChannelStatistics seen = statistics_of(x);
      const auto method = make_method({.method = c.method, .group_size = c.group, .double_quant = c.nested});
      const auto parts = method->quantize(matrix, &seen);
      const LocalShard held{.parts = parts, .out = 70, .in = 256, .rows = {{0, 70}}, .columns = {{0, 256}}};
      const at::Tensor dense = method->dequantize(held, 0, 70);
      const at::Tensor excess = (dense - matrix).abs() - bound_of(c, matrix, parts, method->settings().group_size);
      EXPECT_LE(excess.max().item<double>(), 0) << "power " << power;

      // The product is that of the dense matrix, but for rounded activations.
      const at::Tensor y = method->multiply(x, held), exact = x.matmul(dense.t());
      at::Tensor off = at::zeros_like(x);
      if (c.method == "a8q") off = x.abs().amax({1}, true).expand_as(x) / 254;
      if (c.method == "a4q") off = group_largest(x.masked_fill(parts[2].to(at::kBool), 0), 32) / 14;
      const at::Tensor allowed = off.matmul(dense.abs().t()) * 1.0001 + 1e-4 * exact.abs().max();
      EXPECT_LE(((y - exact).abs() - allowed).max().item<double>(), 0) << "power " << power;
    }
  }
}

TEST(PackedMatrix, HasTheGradientsOfTheMatrixItStandsFor) {
  at::manual_seed(4);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.method);
    const at::Tensor matrix = at::randn({48, 128});
    const at::Tensor x = at::randn({3, 5, 128});
    const ChannelStatistics seen = statistics_of(x.flatten(0, 1));
    const auto packed = std::make_shared<PackedMatrix>(
        make_method({.method = c.method, .group_size = c.group, .double_quant = c.nested}), 48, 128);
    Parameter dense({48, 128}, Initializer::zeros());
    dense.bind(matrix);
    packed->fill(dense, false, &seen);
    const at::Tensor same = packed->dequantize(float32);
    const auto own = gradients_of([&](const auto& in) { return packed->multiply(in[0], "name"); }, {x});
    const auto expected = gradients_of([&](const auto& in) { return at::linear(in[0], same); }, {x});
    EXPECT_TRUE(is_close(own[0], expected[0], {1e-5, 1e-4}));
    // Rows that are looked up one by one.
    const at::Tensor places = at::tensor({47, 0, 13, 13}).view({2, 2});
    EXPECT_TRUE(is_close(packed->rows(places, float32), same.index({places})));
    EXPECT_TRUE(packed->multiply(x.to(at::kBFloat16), "").scalar_type() == at::kBFloat16);
  }
}

TEST(Products, GoThroughManyChunks) {
  at::manual_seed(5);
  const at::Tensor matrix = at::randn({1500, 1024}), x = at::randn({2, 1024}), d = at::randn({2, 1500});
  const RowsOf rows = [&](int64_t begin, int64_t end) { return matrix.narrow(0, begin, end - begin); };
  EXPECT_TRUE(is_close(chunked_product(x, 1500, rows), x.matmul(matrix.t()), {1e-4, 1e-3}));
  EXPECT_TRUE(is_close(chunked_gradient(d, 1500, 1024, rows), d.matmul(matrix), {1e-4, 1e-3}));
}

TEST(Methods, RefuseWhatMakesNoSense) {
  EXPECT_THAT([] { make_method({.method = "aqt"}); },
              ThrowsMessage<ConfigError>(
                  "[quantize] unknown method \"aqt\"; known: 8bit, nf4, int4, a8bit, a8q, a4q, fp8, mxfp4, "
                  "uint4."));
  EXPECT_THAT([] { make_method({.method = "8bit", .group_size = 64}); },
              ThrowsMessage<ConfigError>(HasSubstr("no groups")));
  EXPECT_THAT([] { make_method({.method = "int4", .double_quant = true}); },
              ThrowsMessage<ConfigError>(HasSubstr("only with nf4")));
  EXPECT_THAT([] { make_method({.method = "nf4", .group_size = 48})->parts(4, 96); },
              ThrowsMessage<ConfigError>("[quantize] the group size of nf4 must be a multiple of 32; got 48."));
  EXPECT_THAT(
      [] { make_method({.method = "nf4"})->parts(4, 96); },
      ThrowsMessage<ConfigError>("[quantize] the group size must divide the 96 columns of the matrix; got 64."));
}

}  // namespace
}  // namespace easydel::quantization
