#include "easydel/operations/norm.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

// As LlamaRMSNorm and GemmaRMSNorm write it.
Tensor by_hand(const Tensor& x, const Tensor& weight, const RmsNormOptions& o) {
  const auto acc = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor wide = x.to(acc);
  const Tensor normalized = wide * at::rsqrt(wide.square().mean(-1, true) + o.eps);
  if (o.multiply_before_cast) return (normalized * (o.weight_offset + weight.to(acc))).to(x.scalar_type());
  return (o.weight_offset == 0.0 ? weight : weight + o.weight_offset) * normalized.to(x.scalar_type());
}

TEST(RmsNorm, EqualsTheReference) {
  at::manual_seed(0);
  for (const RmsNormOptions options : {RmsNormOptions{}, RmsNormOptions{.eps = 0.1},
                                       RmsNormOptions{.weight_offset = 1.0, .multiply_before_cast = true}}) {
    for (const int64_t width : {1, 7, 64, 515, 2048}) {
      const Tensor x = at::randn({3, 2, width}, at::kDouble), w = at::randn({width}, at::kDouble);
      EXPECT_TRUE(is_close(rms_norm(x, w, options), by_hand(x, w, options), {1e-13, 1e-13}));
      EXPECT_TRUE(
          is_close(rms_norm(x.to(at::kFloat), w.to(at::kFloat), options), by_hand(x, w, options), {2e-6, 1e-6}));
    }
  }
}

TEST(RmsNorm, RoundsAsTheReferenceInHalfPrecision) {
  at::manual_seed(0);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const bool before_cast : {false, true}) {
      const Tensor x = at::randn({50, 300}).to(type), w = at::randn({300}).to(type);
      const RmsNormOptions options{.multiply_before_cast = before_cast};
      const Tensor got = rms_norm(x, w, options), want = by_hand(x, w, options);
      EXPECT_EQ(got.scalar_type(), type);
      // The sums differ in their last bits, which occasionally changes a rounding.
      EXPECT_GT(got.eq(want).to(at::kDouble).mean().item<double>(), 0.999);
      EXPECT_TRUE(is_close(got, want, {type == at::kHalf ? 2e-3 : 0.016, 1e-6}));
    }
  }
}

TEST(RmsNorm, GradientsMatchDifferences) {
  at::manual_seed(0);
  const Tensor x = at::randn({2, 2, 9}, at::kDouble), w = at::randn({9}, at::kDouble);
  for (const RmsNormOptions options : {RmsNormOptions{}, RmsNormOptions{.weight_offset = 1.0}}) {
    EXPECT_TRUE(gradients_match_differences(
        [&](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1], options); }, {x, w}));
  }
  EXPECT_TRUE(gradients_match_differences(
      [&](const std::vector<Tensor>& in) { return operations::rms_norm(in[0], Tensor()); }, {x}));
}

TEST(RmsNorm, GradientsInHalfPrecisionAreRoundedOnes) {
  at::manual_seed(0);
  const Tensor x = at::randn({64, 300}).to(at::kBFloat16), w = at::randn({300}).to(at::kBFloat16);
  const auto f = [](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1]); };
  const auto got = gradients_of(f, {x, w}), want = gradients_of(f, {x.to(at::kDouble), w.to(at::kDouble)});
  EXPECT_TRUE(is_close(got[0], want[0], {0.02, 0.02}));
  EXPECT_TRUE(is_close(got[1], want[1], {0.02, 0.05}));
}

TEST(RmsNorm, AMasterWeightGetsAGradientOfItsOwnType) {
  const Tensor x = at::randn({4, 8}).to(at::kBFloat16), w = at::randn({8});
  EXPECT_EQ(rms_norm(x, w).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(rms_norm(x, w), rms_norm(x, w.to(at::kBFloat16))));
  EXPECT_EQ(gradients_of([&](const auto& in) { return rms_norm(x, in[0]); }, {w})[0].scalar_type(), at::kFloat);
}

TEST(RmsNorm, SumsTheWeightsGradientOverThreads) {
  at::manual_seed(0);
  const Tensor x = at::randn({1000, 64}, at::kDouble), w = at::randn({64}, at::kDouble);
  const auto f = [](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1]); };
  const auto reference = gradients_of([](const auto& in) { return by_hand(in[0], in[1], {}); }, {x, w});
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  const auto got = gradients_of(f, {x, w});
  at::set_num_threads(before);
  EXPECT_TRUE(is_close(got[0], reference[0], {1e-11, 1e-11}));
  EXPECT_TRUE(is_close(got[1], reference[1], {1e-11, 1e-11}));
}

TEST(RmsNorm, AcceptsTransposedAndEmptyInputs) {
  const Tensor x = at::randn({6, 5}).t(), w = at::ones({6});
  EXPECT_TRUE(at::equal(rms_norm(x, w), rms_norm(x.contiguous(), w)));
  EXPECT_EQ(rms_norm(at::zeros({0, 6}), w).sizes(), (std::vector<int64_t>{0, 6}));
}

TEST(RmsNorm, RefusesASecondDerivative) {
  const Tensor x = at::randn({2, 4}).requires_grad_();
  const Tensor y = rms_norm(x, at::ones({4})).sum();
  EXPECT_THAT([&] { torch::autograd::grad({y}, {x}, {}, std::nullopt, /*create_graph=*/true); },
              ThrowsMessage<NotSupportedError>(
                  "[rms_norm] does not support second derivatives. Call backward without create_graph."));
}

TEST(RmsNorm, RejectsAWeightOfADifferentWidth) {
  EXPECT_THAT(
      [] { rms_norm(at::zeros({2, 4}), at::ones({3})); },
      ThrowsMessage<ShapeError>("[rms_norm] weight and bias must have the 4 elements of x's last dimension; got 3."));
}

TEST(LayerNorm, EqualsTorchAndCastsItsParameters) {
  at::manual_seed(0);
  const Tensor x = at::randn({3, 5, 8}), w = at::randn({8}), b = at::randn({8});
  EXPECT_TRUE(at::equal(layer_norm(x, w, b, 1e-5), at::layer_norm(x, {8}, w, b, 1e-5)));
  EXPECT_TRUE(at::equal(layer_norm(x, w, {}, 1e-5), at::layer_norm(x, {8}, w, {}, 1e-5)));
  EXPECT_EQ(layer_norm(x.to(at::kBFloat16), w, b).scalar_type(), at::kBFloat16);
  EXPECT_THAT(
      [&] { layer_norm(x, w, at::ones({3})); },
      ThrowsMessage<ShapeError>("[layer_norm] weight and bias must have the 8 elements of x's last dimension; got 3."));
}

}  // namespace
}  // namespace easydel::operations
