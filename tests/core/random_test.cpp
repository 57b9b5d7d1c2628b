#include "easydel/core/random.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using Counter = std::array<uint32_t, 4>;

// The known answers that the authors of the paper publish with their Random123 library (kat_vectors).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

enum class Kind { Uniform, Normal, Truncated };

void fill(Kind kind, const at::Tensor& out, RandomKey key, const Region* region = nullptr) {
  switch (kind) {
    case Kind::Uniform: return fill_uniform(out, key, -1, 3, region);
    case Kind::Normal: return fill_normal(out, key, 1, 2, region);
    case Kind::Truncated: return fill_truncated_normal(out, key, 0, 0.02, -2, 2, region);
  }
}

class Fill : public testing::TestWithParam<Kind> {};

TEST_P(Fill, FillsAnySliceAsInTheFullTensor) {
  const RandomKey key = RandomKey(7).fold("model.layers.0.mlp.up_proj.weight");
  const at::Tensor whole = at::empty({5, 7, 11});
  fill(GetParam(), whole, key);
  for (const auto& [offset, size] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{0, 0, 0}, {5, 7, 11}},
                                                                          {{1, 2, 3}, {2, 4, 5}},
                                                                          {{4, 6, 10}, {1, 1, 1}},
                                                                          {{0, 3, 0}, {5, 1, 11}},
                                                                          {{2, 0, 1}, {0, 7, 3}}}) {
    const Region region{{5, 7, 11}, offset};
    const at::Tensor part = at::empty(size);
    fill(GetParam(), part, key, &region);
    at::Tensor expected = whole;
    for (int d = 0; d < 3; ++d) expected = expected.narrow(d, offset[d], size[d]);
    EXPECT_TRUE(at::equal(part, expected)) << "at " << at::IntArrayRef(offset) << " of " << at::IntArrayRef(size);
  }
}

TEST_P(Fill, IsTheSameForAnyNumberOfThreads) {
  const at::Tensor one = at::empty({300, 1000});
  const at::Tensor two = at::empty({300, 1000});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  fill(GetParam(), one, RandomKey(1));
  at::set_num_threads(2);
  fill(GetParam(), two, RandomKey(1));
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, two));
}

TEST_P(Fill, RoundsTheSameNumbersToOtherDtypesAndLayouts) {
  const at::Tensor wide = at::empty({6, 10});
  fill(GetParam(), wide, RandomKey(3));
  const at::Tensor narrow = at::empty({6, 10}, at::kBFloat16);
  fill(GetParam(), narrow, RandomKey(3));
  EXPECT_TRUE(at::equal(narrow, wide.to(at::kBFloat16)));
  const at::Tensor transposed = at::empty({10, 6}).t();
  fill(GetParam(), transposed, RandomKey(3));
  EXPECT_TRUE(at::equal(transposed, wide));
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  constexpr std::array kNames{"Uniform", "Normal", "Truncated"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(, Fill, testing::Values(Kind::Uniform, Kind::Normal, Kind::Truncated), kind_name);

TEST(FillUniform, HasItsMomentsAndBounds) {
  const at::Tensor x = at::empty({1 << 18});
  fill_uniform(x, RandomKey(0), 2, 4);
  EXPECT_NEAR(x.mean().item<double>(), 3, 0.01);
  EXPECT_NEAR(x.var().item<double>(), 4.0 / 12, 0.01);
  EXPECT_GE(x.min().item<double>(), 2);
  EXPECT_LT(x.max().item<double>(), 4);
}

TEST(FillNormal, HasItsMoments) {
  const at::Tensor x = at::empty({1 << 18}, at::kDouble);
  fill_normal(x, RandomKey(0), 1, 2);
  const at::Tensor z = (x - 1) / 2;
  EXPECT_NEAR(z.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(z.pow(2).mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(z.pow(3).mean().item<double>(), 0, 0.03);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.06);
  EXPECT_NEAR((z.slice(0, 0, -1) * z.slice(0, 1)).mean().item<double>(), 0, 0.01);
}

TEST(FillTruncatedNormal, StaysInsideAndHasItsVariance) {
  const at::Tensor x = at::empty({1 << 18});
  fill_truncated_normal(x, RandomKey(0), 0, 1, -2, 2);
  EXPECT_LE(x.abs().max().item<double>(), 2);
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(x.var().item<double>(), 0.7737, 0.01);  // 1 - 4 phi(2) / (2 Phi(2) - 1)
}

TEST(RandomKey, DistinguishesPathsAndSeeds) {
  EXPECT_NE(RandomKey(0).fold("a").bits(), RandomKey(0).fold("b").bits());
  EXPECT_NE(RandomKey(0).fold("a").bits(), RandomKey(1).fold("a").bits());
  EXPECT_NE(RandomKey(0).fold(uint64_t{0}).bits(), RandomKey(0).fold(uint64_t{1}).bits());
}

TEST(FillNormal, RefusesARegionThatLiesOutside) {
  const Region region{{4, 4}, {2, 3}};
  EXPECT_THAT(
      [&] { fill_normal(at::empty({2, 2}), RandomKey(0), 0, 1, &region); },
      testing::ThrowsMessage<ShapeError>("[random] the region at [2, 3] of size [2, 2] lies outside of [4, 4]."));
}

}  // namespace
}  // namespace easydel
