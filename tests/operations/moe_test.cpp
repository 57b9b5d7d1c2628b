#include "easydel/operations/moe/moe.h"

#include <gmock/gmock.h>

#include <cmath>
#include <tuple>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "tests/support/python.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

TEST(Route, ChoosesTheBestAndRenormalizes) {
  const Tensor logits = at::tensor({1.0, 3.0, 2.0, 0.0}, at::kDouble).view({1, 4});
  const Routing routing = route(logits, {.top_k = 2});
  EXPECT_TRUE(at::equal(routing.experts, at::tensor({1, 2}, at::kLong).view({1, 2})));
  EXPECT_TRUE(is_close(routing.weights, at::softmax(at::tensor({3.0, 2.0}, at::kDouble), 0).view({1, 2}), {1e-12, 0}));
  EXPECT_TRUE(is_close(route(logits, {.top_k = 2, .renormalize = false}).weights,
                       at::softmax(logits, -1).gather(1, routing.experts), {1e-12, 0}));
  EXPECT_TRUE(is_close(
      route(logits, {.top_k = 1, .scoring = RouterScoring::Sigmoid, .renormalize = false, .scale = 2.5}).weights,
      2.5 * at::sigmoid(logits.narrow(1, 1, 1)), {1e-12, 0}));
}

TEST(Route, ABiasChangesTheChoiceAndNotTheWeights) {
  const Tensor logits = at::tensor({1.0, 3.0, 2.0, 0.0}, at::kDouble).view({1, 4});
  RouterOptions options{.top_k = 1, .scoring = RouterScoring::Sigmoid, .renormalize = false};
  options.selection_bias = at::tensor({0.0, 0.0, 0.0, 9.0}, at::kDouble);
  const Routing routing = route(logits, options);
  EXPECT_EQ(routing.experts.item<int64_t>(), 3);
  EXPECT_DOUBLE_EQ(routing.weights.item<double>(), 0.5);
}

// With torch's operations, one after the other.
Routing composed_route(const Tensor& logits, const RouterOptions& options) {
  const Tensor scores = options.scoring == RouterScoring::Softmax   ? at::softmax(logits, -1)
                        : options.scoring == RouterScoring::Sigmoid ? at::sigmoid(logits)
                                                                    : logits;
  const Tensor choice = options.selection_bias.defined() ? scores + options.selection_bias : scores;
  const Tensor experts = std::get<1>(at::topk(choice, options.top_k, -1));
  Tensor weights = scores.gather(1, experts);
  if (options.scoring == RouterScoring::SoftmaxOfChosen) weights = at::softmax(weights, -1);
  if (options.scoring != RouterScoring::SoftmaxOfChosen && options.renormalize)
    weights = weights / weights.sum(-1, true);
  return {weights * options.scale, experts};
}

TEST(Route, HasTheWeightsAndGradientsOfTheComposedOperations) {
  at::manual_seed(0);
  for (const auto scoring : {RouterScoring::Softmax, RouterScoring::Sigmoid, RouterScoring::SoftmaxOfChosen}) {
    for (const bool renormalize : {true, false}) {
      for (const bool has_bias : {true, false}) {
        RouterOptions options{.top_k = 3, .scoring = scoring, .renormalize = renormalize, .scale = 2.5};
        if (has_bias) options.selection_bias = at::randn({7}, at::kDouble);
        // Every other column of a wider matrix: logits need not be dense.
        const Tensor wide = at::randn({50, 14}, at::kDouble), d = at::randn({50, 3}, at::kDouble);
        const auto run = [&](const auto& f) {
          const Tensor leaf = wide.clone().requires_grad_();
          const Routing routing = f(leaf.slice(1, 0, 14, 2), options);
          (routing.weights * d).sum().backward();
          return std::tuple(routing, leaf.grad());
        };
        const auto [routing, gradient] = run([](const Tensor& x, const RouterOptions& o) { return route(x, o); });
        const auto [expected, expected_gradient] = run(composed_route);
        EXPECT_TRUE(at::equal(routing.experts, expected.experts));
        EXPECT_TRUE(is_close(routing.weights, expected.weights, {1e-12, 0}));
        EXPECT_TRUE(is_close(gradient, expected_gradient, {1e-12, 1e-12}));
      }
    }
  }
}

TEST(Route, ChoosesTheFirstOfEqualExpertsAndPropagatesNan) {
  const Routing equal = route(at::zeros({1, 5}), {.top_k = 3});
  EXPECT_TRUE(at::equal(equal.experts, at::tensor({0, 1, 2}, at::kLong).view({1, 3})));
  Tensor logits = at::zeros({2, 5});
  logits[0][3] = std::nan("");
  const Routing routing = route(logits, {.top_k = 2});
  EXPECT_TRUE(routing.weights[0].isnan().all().item<bool>());
  EXPECT_TRUE(at::equal(routing.experts[1], at::tensor({0, 1}, at::kLong)));
  EXPECT_TRUE(routing.experts[0].ge(0).logical_and(routing.experts[0].lt(5)).all().item<bool>());
}

TEST(Route, ComputesInFloat32AtLeast) {
  EXPECT_EQ(route(at::zeros({2, 4}).to(at::kBFloat16), {}).weights.scalar_type(), at::kFloat);
}

TEST(Route, RefusesMoreExpertsThanThereAre) {
  EXPECT_THAT([] { route(at::zeros({2, 4}), {.top_k = 5}); },
              ThrowsMessage<ConfigError>("[route] top_k must be in [1, 4], the number of experts; got 5."));
}

Json to_json(const Tensor& t) {
  if (t.dim() == 0) return t.item<double>();
  Json out = Json::array();
  for (int64_t i = 0; i < t.size(0); ++i) out.push_back(to_json(t[i]));
  return out;
}

TEST(LoadBalancingLoss, EqualsTheReferenceWithAndWithoutAMask) {
  at::manual_seed(0);
  std::vector<Tensor> layers;
  for (int layer = 0; layer < 3; ++layer) layers.push_back(at::randn({12, 5}));
  const Tensor mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong).view({2, 6});
  const Json request = Json::object({{"top_k", 2}, {"logits", to_json(at::stack(layers))}, {"mask", to_json(mask)}});
  const Json reference = Json::parse(run_python("operations_peer.py", {"balance", request.dump()}));
  for (const char* kind : {"plain", "masked"}) {
    SCOPED_TRACE(kind);
    const Tensor given = kind == std::string("masked") ? mask : Tensor();
    const auto loss = [&](const std::vector<Tensor>& x) { return load_balancing_loss(x, 2, given); };
    EXPECT_NEAR(loss(layers).item<double>(), reference.at(kind).at("loss").as_double(), 1e-6);
    std::vector<Tensor> leaves;
    for (const Tensor& layer : layers) leaves.push_back(layer.clone().requires_grad_());
    const auto grads = torch::autograd::grad({loss(leaves)}, leaves);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Json& rows = reference.at(kind).at("gradients").at(i);
      for (int64_t t = 0; t < 12; ++t) {
        for (int64_t e = 0; e < 5; ++e) {
          EXPECT_NEAR(grads[i][t][e].item<double>(), rows.at(t).at(e).as_double(), 1e-7);
        }
      }
    }
  }
}

TEST(LoadBalancingLoss, StatisticsOfPartsAddUp) {
  at::manual_seed(0);
  const Tensor logits = at::randn({12, 5}, at::kDouble);
  RouterStatistics parts;
  for (int64_t at = 0; at < 12; at += 4) parts += router_statistics(logits.narrow(0, at, 4), 2);
  EXPECT_TRUE(is_close(load_balancing_loss(parts), load_balancing_loss({logits}, 2), {1e-13, 0}));
}

TEST(Dispatch, SortsRowsByExpertAndKeepsTheOrderOfTokens) {
  const Tensor experts = at::tensor({2, 0, 1, 2, 0, 2}, at::kLong).view({3, 2});
  const Dispatch dispatch = make_dispatch(experts, 4);
  EXPECT_TRUE(at::equal(dispatch.order, at::tensor({1, 4, 2, 0, 3, 5}, at::kLong)));
  EXPECT_TRUE(at::equal(dispatch.inverse.index_select(0, dispatch.order), at::arange(6)));
  EXPECT_THAT(dispatch.host_ends, testing::ElementsAre(2, 3, 6, 6));
  EXPECT_TRUE(at::equal(dispatch.ends, at::tensor({2, 3, 6, 6}, at::kInt)));
}

struct Experts {
  int64_t tokens = 7, experts = 4, top_k = 2, in = 5, inner = 6;
  Tensor x = at::randn({tokens, in}, at::kDouble);
  Tensor w1 = at::randn({experts, inner, in}, at::kDouble), b1 = at::randn({experts, inner}, at::kDouble);
  Tensor w2 = at::randn({experts, in, inner}, at::kDouble);
  Tensor weights = at::rand({tokens, top_k}, at::kDouble);
  Tensor chosen;

  Experts() {  // expert 2 gets nothing
    chosen = at::tensor({0, 1, 1, 3, 0, 3, 1, 0, 3, 0, 0, 1, 1, 3}, at::kLong).view({tokens, top_k});
  }
  Tensor grouped(const std::vector<Tensor>& in) const {  // x, w1, b1, w2, weights
    const Dispatch dispatch = make_dispatch(chosen, experts);
    const Tensor h = at::tanh(grouped_linear(dispatch_rows(in[0], dispatch), in[1], in[2], dispatch));
    return combine_rows(grouped_linear(h, in[3], {}, dispatch), in[4], dispatch);
  }
  Tensor one_by_one(const std::vector<Tensor>& in) const {
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < tokens; ++t) {
      Tensor sum = at::zeros({this->in}, at::kDouble);
      for (int64_t slot = 0; slot < top_k; ++slot) {
        const int64_t e = chosen[t][slot].item<int64_t>();
        sum = sum + in[4][t][slot] * at::linear(at::tanh(at::linear(in[0][t], in[1][e], in[2][e])), in[3][e]);
      }
      rows.push_back(sum);
    }
    return at::stack(rows);
  }
  std::vector<Tensor> inputs() const { return {x, w1, b1, w2, weights}; }
};

TEST(GroupedExperts, EqualTokensOneByOneInValueAndGradient) {
  at::manual_seed(0);
  const Experts e;
  EXPECT_TRUE(is_close(e.grouped(e.inputs()), e.one_by_one(e.inputs()), {1e-12, 1e-12}));
  const auto got = gradients_of([&](const auto& in) { return e.grouped(in); }, e.inputs());
  const auto want = gradients_of([&](const auto& in) { return e.one_by_one(in); }, e.inputs());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(is_close(got[i], want[i], {1e-11, 1e-12})) << "gradient " << i;
}

TEST(GroupedExperts, GradientsMatchDifferences) {
  at::manual_seed(0);
  const Experts e;
  EXPECT_TRUE(gradients_match_differences([&](const auto& in) { return e.grouped(in); }, e.inputs(), {1e-5, 1e-6}));
}

TEST(GroupedExperts, ExpertsWithoutTokensAreNotRead) {
  Experts e;
  e.w1[2].fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(e.grouped(e.inputs()).isnan().any().item<bool>());
  const auto grads = gradients_of([&](const auto& in) { return e.grouped(in); }, e.inputs());
  EXPECT_EQ(grads[1][2].abs().max().item<double>(), 0.0);
}

TEST(GroupedExperts, AcceptHalfPrecisionWithMasterWeights) {
  at::manual_seed(0);
  const Experts e;
  const auto f = [&](const auto& in) { return e.grouped(in); };
  const std::vector<Tensor> half = {e.x.to(at::kBFloat16), e.w1.to(at::kFloat), e.b1.to(at::kFloat),
                                    e.w2.to(at::kFloat), e.weights.to(at::kFloat)};
  EXPECT_EQ(f(half).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(is_close(f(half), f(e.inputs()), {0.05, 0.1}));
  const auto grads = gradients_of(f, half);
  for (std::size_t i = 0; i < grads.size(); ++i) EXPECT_EQ(grads[i].scalar_type(), half[i].scalar_type());
}

TEST(GroupedExperts, WorkWithoutTokens) {
  const Dispatch dispatch = make_dispatch(at::zeros({0, 2}, at::kLong), 3);
  const Tensor rows = grouped_linear(dispatch_rows(at::zeros({0, 5}), dispatch), at::zeros({3, 4, 5}), {}, dispatch);
  EXPECT_EQ(combine_rows(rows, at::zeros({0, 2}), dispatch).sizes(), (std::vector<int64_t>{0, 4}));
}

TEST(GroupedExperts, RejectMismatchedShapes) {
  const Dispatch dispatch = make_dispatch(at::zeros({3, 2}, at::kLong), 4);
  EXPECT_THAT([&] { dispatch_rows(at::zeros({4, 5}), dispatch); },
              ThrowsMessage<ShapeError>("[dispatch_rows] x must be [3, features]; got [4, 5]."));
  EXPECT_THAT([&] { grouped_linear(at::zeros({6, 5}), at::zeros({3, 2, 5}), {}, dispatch); },
              ThrowsMessage<ShapeError>(
                  "[grouped_linear] x must be [6, in] and weight [4, out, in]; got [6, 5] and [3, 2, 5]."));
  EXPECT_THAT([&] { combine_rows(at::zeros({6, 5}), at::zeros({2, 3}), dispatch); },
              ThrowsMessage<ShapeError>(
                  "[combine_rows] rows must be [6, features] and weights [tokens, 2]; got [6, 5] and [2, 3]."));
  EXPECT_THAT([&] { make_dispatch(at::zeros({3, 2}, at::kLong) + 4, 4); },
              ThrowsMessage<ShapeError>("[make_dispatch] an expert must be in [0, 4); got 4."));
}

}  // namespace
}  // namespace easydel::operations
