#include "easydel/operations/linear/float8.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/linear/linear.h"
#include "tests/operations/float8_expected.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Magnitudes that differ from line to line, and some that vanish beside them.
Tensor uneven(at::IntArrayRef shape) {
  Tensor x = at::randn(shape);
  x = x * at::exp(3 * at::randn({shape[0], 1})) * at::exp(2 * at::randn({1, shape[1]}));
  return x.masked_fill(at::rand(shape) < 0.1, 0.0);
}

TEST(Float8, ProductsAreThoseOfRoundedMatrices) {
  at::manual_seed(0);
  for (const auto scales : {Float8Scales::Rowwise, Float8Scales::Tensorwise}) {
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{6, 32, 48}, {37, 16, 64}, {1, 48, 16}}) {
      const Tensor x = uneven({rows, in}).requires_grad_(), weight = uneven({out, in}).requires_grad_();
      const Tensor d_y = uneven({rows, out});
      const Float8Expected want = float8_expected(x, weight, d_y, scales);
      const auto near = [](const Tensor& a, const Tensor& b) {
        return is_close(a, b, {1e-5, 1e-6 * b.abs().max().item<double>()});
      };
      for (const bool checkpointed : {false, true}) {
        x.mutable_grad().reset();
        weight.mutable_grad().reset();
        const auto map = [&](const TensorList& in_) -> TensorList {
          return {float8_linear(in_[0].view({1, rows, in}), weight, scales, "mlp_up")};
        };
        const Tensor y = checkpointed ? checkpoint(map, {x})[0] : map({x})[0];
        EXPECT_TRUE(near(y.view({rows, out}), want.y));
        y.backward(d_y.view({1, rows, out}));
        EXPECT_TRUE(near(x.grad(), want.d_x));
        EXPECT_TRUE(near(weight.grad(), want.d_weight));
      }
      // It is not the product in float32.
      EXPECT_GT((want.y - at::linear(x, weight).detach()).abs().max().item<double>(),
                1e-3 * want.y.abs().max().item<double>());
    }
  }
}

TEST(Float8, MapsOfOneInputRoundItOnceAndSeeItsChanges) {
  at::manual_seed(1);
  const auto scales = Float8Scales::Rowwise;
  Tensor x = uneven({8, 32});
  const Tensor a = uneven({16, 32}).requires_grad_(), b = uneven({48, 32}).requires_grad_();
  const Tensor first = float8_linear(x, a, scales), second = float8_linear(x, b, scales);
  EXPECT_TRUE(is_close(second, at::mm(rounded_to_float8(x, scales, 1), rounded_to_float8(b, scales, 1).t())));
  const Tensor changed = x.clone();
  const Tensor again = float8_linear(changed, a, scales);
  EXPECT_TRUE(at::equal(first, again));
  {
    const at::NoGradGuard guard;
    changed.mul_(3);
  }
  EXPECT_TRUE(is_close(float8_linear(changed, a, scales),
                       at::mm(rounded_to_float8(changed, scales, 1), rounded_to_float8(a, scales, 1).t())));
}

TEST(Float8, WithoutGradientsItIsThePlainProduct) {
  const Tensor x = at::randn({3, 16}), weight = at::randn({32, 16}).requires_grad_();
  const at::NoGradGuard guard;
  EXPECT_TRUE(at::equal(float8_linear(x, weight, Float8Scales::Rowwise), operations::linear(x, weight)));
}

TEST(Float8, WhatIsNotFiniteStaysSo) {
  const Tensor weight = at::randn({16, 16}).requires_grad_();
  for (const auto scales : {Float8Scales::Rowwise, Float8Scales::Tensorwise}) {
    for (const double value : {std::nan(""), HUGE_VAL}) {
      Tensor x = at::randn({2, 16});
      x[1][3] = value;
      EXPECT_FALSE(at::isfinite(float8_linear(x, weight, scales)[1]).any().item<bool>());
    }
  }
}

TEST(Float8, RefusesOtherSizesAndNames) {
  const Tensor weight = at::randn({24, 16}).requires_grad_();
  EXPECT_THAT([&] { float8_linear(at::randn({2, 16}), weight, Float8Scales::Rowwise); },
              ThrowsMessage<ShapeError>("[float8] both sizes of a weight must be multiples of 16; got [24, 16]."));
  EXPECT_THAT([] { parse_float8("blockwise"); },
              ThrowsMessage<ConfigError>(HasSubstr("must be rowwise or tensorwise; got \"blockwise\"")));
}

}  // namespace
}  // namespace easydel::operations
