#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/random.h"
#include "easydel/operations/rope.h"
#include "tests/infra/toy_config.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

TEST(BaseConfigTensors, GivesTheFrequenciesOfItsPositions) {
  const ToyConfig config;  // 2 heads of 4, 16 positions, theta 10000
  const at::Tensor inverse = config.get_basic_inv_frequencies({});
  EXPECT_TRUE(at::allclose(inverse, at::tensor({1.0f, 0.01f})));

  const at::Tensor table = config.get_basic_frequencies({});
  ASSERT_EQ(table.sizes(), (at::IntArrayRef{16, 4}));
  const at::Tensor angles = at::arange(16, at::kFloat).outer(inverse);
  EXPECT_TRUE(at::allclose(table, at::cat({angles.cos(), angles.sin()}, -1)));
}

TEST(BaseConfigTensors, TakesAnotherHeadBaseAndRotatedPart) {
  ToyConfig config;
  config.attention.freq_max_position_embeddings = 5;

  EXPECT_TRUE(at::allclose(config.get_basic_inv_frequencies({.base = 100.0}), at::tensor({1.0f, 0.1f})));
  EXPECT_EQ(config.get_basic_frequencies({.head_size = 16}).sizes(), (at::IntArrayRef{5, 16}));
  EXPECT_EQ(config.get_basic_frequencies({.head_size = 16, .rotary_dim = 4}).sizes(), (at::IntArrayRef{5, 4}));
  EXPECT_THAT(([&] { config.get_basic_frequencies({.rotary_dim = 6}); }),
              ThrowsMessage<ConfigError>("[get_basic_rope] rotary_dim must be at least 2 and at most the head size 4; "
                                         "got 6."));
}

TEST(BaseConfigTensors, RotatesAsTheModelsDo) {
  ToyConfig config;
  config.rope = {.rope_type = "dynamic", .factor = 2};
  const at::Tensor q = at::rand({1, 3, 2, 4}), k = at::rand({1, 3, 1, 4});
  for (const int64_t first : {0, 100}) {  // inside the length it was trained with, and past it
    const at::Tensor positions = at::arange(first, first + 3).unsqueeze(0);
    const auto table = operations::rope_table(operations::rope_frequencies(config.rope, 4, 16, first + 3), positions);
    for (const bool neox : {true, false}) {
      const auto style = neox ? operations::RopeStyle::Half : operations::RopeStyle::Interleaved;
      const auto [expected_q, expected_k] = operations::apply_rotary(q, k, table, style);
      const auto [found_q, found_k] = config.get_basic_rope({.is_neox_style = neox})(q, k, positions);
      EXPECT_TRUE(at::equal(found_q, expected_q));
      EXPECT_TRUE(at::equal(found_k, expected_k));
    }
  }
  const auto [half, _] = config.get_basic_rope({.dtype = bfloat16})(q, k, at::arange(3));
  EXPECT_EQ(half.scalar_type(), bfloat16);
}

TEST(BaseConfigTensors, GivesACausalMask) {
  ToyConfig config;
  EXPECT_EQ(config.get_basic_causal_mask().sizes(), (at::IntArrayRef{1, 1, 16, 16}));
  config.attention.mask_max_position_embeddings = 6;
  EXPECT_EQ(config.get_basic_causal_mask().size(-1), 6);

  const at::Tensor mask = config.get_basic_causal_mask(4);
  EXPECT_TRUE(at::equal(mask, at::ones({1, 1, 4, 4}, at::kBool).tril()));
}

TEST(BaseConfigTensors, ForgetsAShareOfThePastInTraining) {
  ToyConfig config;
  const RandomKey key(7);
  EXPECT_FALSE(config.get_fcm_mask(2, 8, /*deterministic=*/false, key).defined());

  config.attention.fcm_min_ratio = config.attention.fcm_max_ratio = 0.25;
  EXPECT_FALSE(config.get_fcm_mask(2, 8, /*deterministic=*/true, key).defined());
  const at::Tensor mask = config.get_fcm_mask(4, 64, /*deterministic=*/false, key);
  ASSERT_EQ(mask.sizes(), (at::IntArrayRef{4, 1, 64, 64}));
  EXPECT_TRUE(mask.select(-1, 0).all().item<bool>());
  EXPECT_NEAR(mask.narrow(-1, 1, 63).to(at::kFloat).mean().item<float>(), 0.75, 0.02);
  EXPECT_TRUE(at::equal(mask, config.get_fcm_mask(4, 64, false, key)));
  EXPECT_FALSE(at::equal(mask, config.get_fcm_mask(4, 64, false, RandomKey(8))));
}

}  // namespace
}  // namespace easydel
