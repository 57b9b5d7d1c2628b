// Fused experts, group-limited routing, and the clamped gate.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/operations/moe/moe.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

struct Problem {
  int64_t tokens, experts, top_k, hidden, inner;
  std::string act = "silu";
  at::ScalarType dtype = at::kDouble;
};

std::vector<Tensor> inputs_of(const Problem& p) {
  return {at::randn({p.tokens, p.hidden}, p.dtype), at::rand({p.tokens, p.top_k}, p.dtype),
          at::randn({p.experts, 2 * p.inner, p.hidden}, p.dtype), at::randn({p.experts, p.hidden, p.inner}, p.dtype)};
}

// Uneven on purpose: low numbers get more tokens, and the last expert none.
Tensor choose(const Problem& p) {
  const Tensor scores = at::rand({p.tokens, p.experts}) / at::arange(1, p.experts + 1);
  const int64_t most = p.experts > p.top_k ? p.experts - 1 : p.experts;
  return std::get<1>(at::topk(scores.narrow(1, 0, most), p.top_k, -1));
}

void expect_the_same(const Problem& p, Tolerance tolerance) {
  const Dispatch dispatch = make_dispatch(choose(p), p.experts);
  const Activation& act = find_activation(p.act);
  const auto fused = [&](const std::vector<Tensor>& in) {
    return fused_experts(in[0], in[1], {in[2], in[3], &act}, dispatch);
  };
  const auto composed = [&](const std::vector<Tensor>& in) {
    const Tensor h = gated_activation(grouped_linear(dispatch_rows(in[0], dispatch), in[2], {}, dispatch), act);
    return combine_rows(grouped_linear(h, in[3], {}, dispatch), in[1], dispatch);
  };
  const std::vector<Tensor> inputs = inputs_of(p);
  EXPECT_TRUE(is_close(fused(inputs), composed(inputs), tolerance));
  const auto got = gradients_of(fused, inputs), want = gradients_of(composed, inputs);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(is_close(got[i], want[i], tolerance)) << "gradient " << i;
}

TEST(FusedExperts, EqualTheirParts) {
  at::manual_seed(0);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    expect_the_same({.tokens = 7, .experts = 4, .top_k = 2, .hidden = 5, .inner = 6}, {1e-11, 1e-11});
    expect_the_same({.tokens = 900, .experts = 3, .top_k = 2, .hidden = 8, .inner = 16, .act = "gelu"}, {1e-10, 1e-9});
    expect_the_same({.tokens = 1, .experts = 1, .top_k = 1, .hidden = 3, .inner = 2}, {1e-11, 1e-11});
    expect_the_same({.tokens = 300, .experts = 5, .top_k = 3, .hidden = 16, .inner = 24, .dtype = at::kFloat},
                    {1e-4, 1e-3});
  }
  at::set_num_threads(1);
}

TEST(FusedExperts, InFloat32EqualTheirPartsInFloat64) {
  at::manual_seed(0);
  at::set_num_threads(2);
  // Experts with many rows, some rows and none.
  const Problem p{.tokens = 1700, .experts = 5, .top_k = 2, .hidden = 72, .inner = 40};
  const Dispatch dispatch = make_dispatch(choose(p), p.experts);
  const Activation& act = find_activation(p.act);
  std::vector<Tensor> wide = inputs_of(p), narrow;
  wide[2].mul_(1 / std::sqrt(p.hidden));
  wide[3].mul_(1 / std::sqrt(p.inner));
  for (Tensor& t : wide) t = t.to(at::kFloat).to(at::kDouble);
  for (const Tensor& t : wide) narrow.push_back(t.to(at::kFloat));
  const auto fused = [&](const std::vector<Tensor>& in) {
    return fused_experts(in[0], in[1], {in[2], in[3], &act}, dispatch);
  };
  EXPECT_TRUE(is_close(fused(narrow).to(at::kDouble), fused(wide), {1e-5, 1e-5}));
  const auto got = gradients_of(fused, narrow), want = gradients_of(fused, wide);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(is_close(got[i].to(at::kDouble), want[i], {1e-5, 1e-4})) << "gradient " << i;
  at::set_num_threads(1);
}

TEST(FusedExperts, GradientsMatchDifferences) {
  at::manual_seed(0);
  const Problem p{.tokens = 5, .experts = 3, .top_k = 2, .hidden = 4, .inner = 3};
  const Dispatch dispatch = make_dispatch(choose(p), p.experts);
  EXPECT_TRUE(gradients_match_differences(
      [&](const std::vector<Tensor>& in) {
        return fused_experts(in[0], in[1], {in[2], in[3], &find_activation("silu")}, dispatch);
      },
      inputs_of(p), {1e-5, 1e-6}));
}

TEST(FusedExperts, AcceptHalfPrecisionWithMasterWeights) {
  at::manual_seed(0);
  const Problem p{.tokens = 40, .experts = 4, .top_k = 2, .hidden = 8, .inner = 8};
  const Dispatch dispatch = make_dispatch(choose(p), p.experts);
  std::vector<Tensor> half = inputs_of(p);
  half[0] = half[0].to(at::kBFloat16);
  for (std::size_t i = 1; i < half.size(); ++i) half[i] = half[i].to(at::kFloat);
  const auto f = [&](const std::vector<Tensor>& in) {
    return fused_experts(in[0], in[1], {in[2], in[3], &find_activation("silu")}, dispatch);
  };
  EXPECT_EQ(f(half).scalar_type(), at::kBFloat16);
  const auto grads = gradients_of(f, half);
  for (std::size_t i = 0; i < grads.size(); ++i) EXPECT_EQ(grads[i].scalar_type(), half[i].scalar_type());
}

TEST(ClampedGate, EqualsItsFormulaAndItsGradientMatchesDifferences) {
  at::manual_seed(0);
  const ClampedGate gate{.alpha = 1.3, .limit = 0.8};
  const Tensor x = at::randn({6, 8}, at::kDouble) * 2;
  const Tensor g = x.slice(1, 0, 8, 2).clamp_max(0.8), u = x.slice(1, 1, 8, 2).clamp(-0.8, 0.8);
  EXPECT_TRUE(is_close(clamped_gate(x, gate), (u + 1) * g * at::sigmoid(1.3 * g), {1e-12, 1e-12}));
  EXPECT_TRUE(
      gradients_match_differences([&](const auto& in) { return clamped_gate(in[0], gate); }, {x}, {1e-5, 1e-6}));
}

TEST(GroupedLinear, AcceptsMatricesAsInOut) {
  at::manual_seed(0);
  const Problem p{.tokens = 9, .experts = 3, .top_k = 2, .hidden = 4, .inner = 3};
  const Dispatch dispatch = make_dispatch(choose(p), p.experts);
  const Tensor x = at::randn({18, 4}, at::kDouble), w = at::randn({3, 4, 5}, at::kDouble);
  const auto turned = [&](const auto& in) {
    return grouped_linear(in[0], in[1], in[2], dispatch, {.transposed = true});
  };
  const auto plain = [&](const auto& in) {
    return grouped_linear(in[0], in[1].transpose(1, 2).contiguous(), in[2], dispatch);
  };
  const std::vector<Tensor> inputs{x, w, at::randn({3, 5}, at::kDouble)};
  EXPECT_TRUE(is_close(turned(inputs), plain(inputs), {1e-12, 1e-12}));
  const auto got = gradients_of(turned, inputs), want = gradients_of(plain, inputs);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-12, 1e-12}));
}

TEST(Route, ChoosesExpertsOfTheBestGroups) {
  // Groups {0, 1}, {2, 3}, {4, 5}. By the highest score the last is best, by the two highest the first.
  const Tensor logits = at::tensor({2.0, 1.9, 0.0, 0.1, 2.1, -5.0}, at::kDouble).view({1, 6});
  RouterOptions options{.top_k = 2, .scoring = RouterScoring::Sigmoid, .groups = 3, .top_groups = 1};
  const auto chosen = [&] { return std::get<0>(route(logits, options).experts.sort(-1)); };
  EXPECT_TRUE(at::equal(chosen(), at::tensor({4, 5}, at::kLong).view({1, 2})));
  options.group_best = 2;
  EXPECT_TRUE(at::equal(chosen(), at::tensor({0, 1}, at::kLong).view({1, 2})));
}

TEST(Route, RejectsInvalidGroups) {
  const Tensor logits = at::zeros({2, 6});
  EXPECT_THAT([&] { route(logits, {.top_k = 1, .groups = 4}); },
              ThrowsMessage<ConfigError>("[route] groups must divide the 6 experts; got 4."));
  EXPECT_THAT([&] { route(logits, {.top_k = 3, .groups = 3, .top_groups = 1}); },
              ThrowsMessage<ConfigError>("[route] top_k must be at most the 2 experts of the chosen groups; got 3."));
}

TEST(RouterStatistics, LoadAndEntropy) {
  // Two tokens to expert 0, one to expert 1; the third does not count.
  const Tensor logits = at::tensor({5.0, 0.0, 0.0, 5.0, 5.0, 0.0, 0.0, 9.0}, at::kDouble).view({4, 2});
  const RouterStatistics s = router_statistics(logits, 1, at::tensor({1, 1, 1, 0}, at::kLong));
  EXPECT_DOUBLE_EQ(router_load_max(s).item<double>(), 2.0 / 1.5);
  const double p = 1 / (1 + std::exp(-5.0)), q = 1 - p;
  EXPECT_NEAR(s.entropy.item<double>(), -3 * (p * std::log(p) + q * std::log(q)), 1e-12);
}

}  // namespace
}  // namespace easydel::operations
