#include "easydel/operations/loss/loss.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

// In torch's operations, from the definition.
Tensor by_hand(const Tensor& raw, const Tensor& labels, const CrossEntropyOptions& o) {
  Tensor logits = raw * o.logit_scale;
  if (o.logit_softcap != 0.0) logits = o.logit_softcap * at::tanh(logits / o.logit_softcap);
  const Tensor valid = labels.ne(o.ignore_index), index = labels.masked_fill(valid.logical_not(), 0);
  const Tensor log_p = at::log_softmax(logits, -1), lse = at::logsumexp(logits, -1);
  const Tensor nll = -log_p.gather(-1, index.unsqueeze(-1)).squeeze(-1);
  Tensor loss = (1 - o.label_smoothing) * nll - o.label_smoothing * log_p.mean(-1) + o.z_loss * lse.square();
  Tensor weight = valid.to(logits.scalar_type());
  if (o.token_weights.defined()) weight = weight * o.token_weights.to(logits.scalar_type());
  loss = loss * weight;
  if (o.reduction == Reduction::None) return loss;
  if (o.reduction == Reduction::Sum) return loss.sum();
  return loss.sum() / (o.divisor.defined() ? o.divisor.to(logits.scalar_type()) : weight.sum());
}

std::vector<CrossEntropyOptions> option_sets() {
  std::vector<CrossEntropyOptions> all = {
      {},
      {.label_smoothing = 0.1},
      {.z_loss = 1e-2},
      {.reduction = Reduction::Sum},
      {.logit_scale = 0.25},
      {.logit_softcap = 2.0},
      {.ignore_index = 3},
      {.label_smoothing = 0.2, .z_loss = 0.05, .logit_scale = 1.5, .logit_softcap = 3.0}};
  CrossEntropyOptions weighted{.z_loss = 1e-2};
  weighted.token_weights = at::linspace(0.1, 2.0, 10, at::kDouble).view({2, 5});
  all.push_back(weighted);
  weighted.divisor = at::scalar_tensor(37.0, at::kDouble);
  all.push_back(weighted);
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(all[i]);
    all.back().reduction = Reduction::None;
  }
  for (CrossEntropyOptions& o : all) o.chunk_size = 3;  // several chunks, and a remainder
  return all;
}

Tensor some_labels(int64_t ignore_index = -100) {
  Tensor labels = at::tensor({0, 5, 3, 8, 1, 2, 2, 7, 4, 6}, at::kLong).view({2, 5});
  labels[0][2] = ignore_index;
  labels[1][4] = ignore_index;
  return labels;
}

TEST(CrossEntropy, EqualsTheDefinitionInValueAndGradient) {
  at::manual_seed(0);
  const Tensor logits = at::randn({2, 5, 9}, at::kDouble) * 2;
  for (const CrossEntropyOptions& o : option_sets()) {
    const Tensor labels = some_labels(o.ignore_index);
    const auto ours = [&](const std::vector<Tensor>& x) { return cross_entropy(x[0], labels, o).loss; };
    const auto theirs = [&](const std::vector<Tensor>& x) { return by_hand(x[0], labels, o); };
    EXPECT_TRUE(is_close(ours({logits}), theirs({logits}), {1e-12, 1e-12}));
    EXPECT_TRUE(is_close(gradients_of(ours, {logits})[0], gradients_of(theirs, {logits})[0], {1e-11, 1e-12}));
  }
}

TEST(LinearCrossEntropy, EqualsTheDefinitionInValueAndGradient) {
  at::manual_seed(0);
  const Tensor hidden = at::randn({2, 5, 4}, at::kDouble), weight = at::randn({9, 4}, at::kDouble),
               bias = at::randn({9}, at::kDouble);
  for (const CrossEntropyOptions& o : option_sets()) {
    const Tensor labels = some_labels(o.ignore_index);
    const auto ours = [&](const std::vector<Tensor>& x) {
      return linear_cross_entropy(x[0], x[1], x[2], labels, o).loss;
    };
    const auto theirs = [&](const std::vector<Tensor>& x) { return by_hand(at::linear(x[0], x[1], x[2]), labels, o); };
    EXPECT_TRUE(is_close(ours({hidden, weight, bias}), theirs({hidden, weight, bias}), {1e-12, 1e-12}));
    const auto got = gradients_of(ours, {hidden, weight, bias}), want = gradients_of(theirs, {hidden, weight, bias});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-11, 1e-12})) << "gradient " << i;
  }
}

// Rows without a label are left out: what stands there does not matter, and the others have the same loss.
TEST(LinearCrossEntropy, LeavesOutRowsWithoutALabel) {
  at::manual_seed(0);
  const Tensor hidden = at::randn({3, 40, 4}, at::kDouble), weight = at::randn({9, 4}, at::kDouble),
               bias = at::randn({9}, at::kDouble), weights = at::rand({3, 40}, at::kDouble);
  const Tensor labels = at::randint(9, {3, 40}, at::kLong).masked_fill_(at::rand({3, 40}).lt(0.7), -100);
  Tensor spoiled = hidden.clone();
  spoiled.masked_fill_(labels.eq(-100).unsqueeze(-1), NAN);
  for (const Reduction reduction : {Reduction::Mean, Reduction::Sum, Reduction::None}) {
    const CrossEntropyOptions o{.z_loss = 0.1, .reduction = reduction, .token_weights = weights, .chunk_size = 7};
    const auto of = [&](const Tensor& states) {
      return gradients_of(
          [&](const std::vector<Tensor>& x) { return linear_cross_entropy(x[0], x[1], x[2], labels, o).loss; },
          {states, weight, bias});
    };
    const auto theirs = gradients_of(
        [&](const std::vector<Tensor>& x) { return cross_entropy(at::linear(x[0], x[1], x[2]), labels, o).loss; },
        {hidden, weight, bias});
    const auto got = of(spoiled);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_close(got[i], theirs[i], {1e-11, 1e-12})) << "gradient " << i;
    const auto ours = linear_cross_entropy(spoiled, weight, bias, labels, o),
               want = cross_entropy(at::linear(hidden, weight, bias), labels, o);
    EXPECT_TRUE(is_close(ours.loss, want.loss, {1e-12, 1e-12}));
    EXPECT_TRUE(is_close(ours.z_loss, want.z_loss, {1e-12, 1e-12}));
    EXPECT_TRUE(at::equal(ours.num_tokens, want.num_tokens));
    EXPECT_TRUE(at::equal(ours.num_correct, want.num_correct));
    EXPECT_TRUE(is_close(ours.weight_sum, want.weight_sum, {1e-12, 1e-12}));
  }
}

TEST(CrossEntropy, EqualsTorchInFloat32) {
  at::manual_seed(0);
  const Tensor logits = at::randn({64, 5000}) * 4, labels = at::randint(5000, {64}, at::kLong);
  labels[7] = -100;
  for (const double smoothing : {0.0, 0.1}) {
    const Tensor want = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Mean, -100, smoothing);
    EXPECT_TRUE(is_close(cross_entropy(logits, labels, {.label_smoothing = smoothing}).loss, want, {1e-6, 0}));
  }
}

TEST(LinearCrossEntropy, EqualsTorchInFloat32) {
  at::manual_seed(0);
  const Tensor hidden = at::randn({600, 32}), weight = at::randn({3000, 32}),
               labels = at::randint(3000, {600}, at::kLong);
  const auto ours = [&](const std::vector<Tensor>& x) { return linear_cross_entropy(x[0], x[1], {}, labels).loss; };
  const auto theirs = [&](const std::vector<Tensor>& x) {
    return at::cross_entropy_loss(at::linear(x[0], x[1]), labels);
  };
  EXPECT_TRUE(is_close(ours({hidden, weight}), theirs({hidden, weight}), {1e-6, 0}));
  const auto got = gradients_of(ours, {hidden, weight});
  const auto want = gradients_of(theirs, {hidden.to(at::kDouble), weight.to(at::kDouble)});
  // The error of float32 depends on the machine's matrix products; torch's own error is the baseline.
  const auto usual = gradients_of(theirs, {hidden, weight});
  const auto distance = [](const Tensor& a, const Tensor& b) {
    return (a.to(at::kDouble) - b).abs().max().item<double>();
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_LT(distance(got[i], want[i]), 3 * distance(usual[i], want[i])) << "gradient " << i;
  }
}

TEST(LinearCrossEntropy, ScalesItsGradientsWithTheLoss) {
  at::manual_seed(0);
  const Tensor hidden = at::randn({2, 5, 4}, at::kDouble).requires_grad_(), weight = at::randn({9, 4}, at::kDouble);
  const Tensor labels = some_labels();
  const auto gradient = [&](double factor) {
    return torch::autograd::grad({linear_cross_entropy(hidden, weight, {}, labels).loss * factor}, {hidden})[0];
  };
  EXPECT_TRUE(is_close(gradient(-3.5), gradient(1.0) * -3.5, {1e-14, 1e-15}));
}

TEST(LinearCrossEntropy, CanRunBackwardTwice) {
  const Tensor hidden = at::randn({2, 5, 4}).requires_grad_(), weight = at::randn({9, 4});
  const Tensor loss = linear_cross_entropy(hidden, weight, {}, some_labels()).loss * 2;
  const Tensor first = torch::autograd::grad({loss}, {hidden}, {}, /*retain_graph=*/true)[0].clone();
  EXPECT_TRUE(at::equal(torch::autograd::grad({loss}, {hidden})[0], first));
}

TEST(LinearCrossEntropy, AcceptsHalfPrecisionAndMasterWeights) {
  at::manual_seed(0);
  const Tensor hidden = at::randn({2, 5, 16}), weight = at::randn({9, 16}), labels = some_labels();
  const auto f = [&](const std::vector<Tensor>& x) { return linear_cross_entropy(x[0], x[1], {}, labels).loss; };
  const Tensor exact = f({hidden, weight});
  const auto want = gradients_of(f, {hidden, weight});
  for (const auto weight_type : {at::kFloat, at::kBFloat16}) {
    const std::vector<Tensor> half = {hidden.to(at::kBFloat16), weight.to(weight_type)};
    const Tensor loss = f(half);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_TRUE(is_close(loss, exact, {0.02, 0}));
    const auto got = gradients_of(f, half);
    EXPECT_EQ(got[1].scalar_type(), weight_type);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_close(got[i], want[i], {0.1, 0.02})) << "gradient " << i;
  }
}

TEST(LinearCrossEntropy, NeverMaterializesTheLogitsOfTheFullBatch) {
  const Tensor hidden = at::randn({2048, 16}).requires_grad_(), weight = at::randn({4000, 16}).requires_grad_();
  const Tensor labels = at::randint(4000, {2048}, at::kLong);
  const int64_t all_logits = 2048 * 4000 * 4;
  for (const Reduction reduction : {Reduction::Mean, Reduction::None}) {
    const int64_t peak = peak_bytes([&] {
      const CrossEntropyOptions options{.reduction = reduction, .chunk_size = 128};
      torch::autograd::grad({linear_cross_entropy(hidden, weight, {}, labels, options).loss.sum()}, {hidden, weight});
    });
    EXPECT_LT(peak, all_logits / 8);
  }
}

TEST(CrossEntropy, CountsTokensAndHits) {
  Tensor logits = at::zeros({2, 3, 4});
  const Tensor labels = at::tensor({1, 2, -100, 3, 0, 0}, at::kLong).view({2, 3});
  logits[0][0][1] = 5;  // hit
  logits[0][1][1] = 5;  // miss
  logits[0][2][1] = 5;  // ignored
  logits[1][0][3] = 5;  // hit
  logits[1][1][3] = 5;  // miss
  logits[1][2][0] = 5;  // hit
  for (const bool is_linear : {false, true}) {
    const auto out = is_linear ? linear_cross_entropy(logits, at::eye(4), {}, labels, {.z_loss = 0.5})
                               : cross_entropy(logits, labels, {.z_loss = 0.5});
    EXPECT_EQ(out.num_tokens.item<int64_t>(), 5);
    EXPECT_EQ(out.weight_sum.item<double>(), 5.0);
    EXPECT_EQ(out.num_correct.item<int64_t>(), 3);
    EXPECT_NEAR(out.accuracy().item<double>(), 0.6, 1e-6);
    EXPECT_TRUE(is_close(out.z_loss, 0.5 * at::logsumexp(logits[0][0], -1).square(), {1e-5, 0}));
    EXPECT_FALSE(out.num_tokens.requires_grad());
  }
}

TEST(CrossEntropy, OfNoTokensIsZeroWithZeroGradients) {
  const Tensor labels = at::full({2, 5}, -100, at::kLong);
  const Tensor hidden = at::randn({2, 5, 4}), weight = at::randn({9, 4});
  const auto linear = [&](const std::vector<Tensor>& x) { return linear_cross_entropy(x[0], x[1], {}, labels).loss; };
  EXPECT_EQ(linear({hidden, weight}).item<double>(), 0.0);
  for (const Tensor& grad : gradients_of(linear, {hidden, weight})) EXPECT_EQ(grad.abs().max().item<double>(), 0.0);
  const auto plain = [&](const std::vector<Tensor>& x) { return cross_entropy(x[0], labels).loss; };
  EXPECT_EQ(plain({at::randn({2, 5, 9})}).item<double>(), 0.0);
  EXPECT_EQ(cross_entropy(at::randn({2, 5, 9}), labels).accuracy().item<double>(), 0.0);
}

TEST(CrossEntropy, StaysFiniteAtExtremeLogits) {
  const Tensor logits = at::tensor({1e4f, -1e4f, 0.f, 3e38f, -3e38f, 0.f}).view({2, 3});
  const Tensor labels = at::tensor({0, 0}, at::kLong);
  const auto f = [&](const std::vector<Tensor>& x) { return cross_entropy(x[0], labels).loss; };
  EXPECT_EQ(f({logits}).item<float>(), 0.f);
  EXPECT_TRUE(at::isfinite(gradients_of(f, {logits})[0]).all().item<bool>());
}

TEST(CrossEntropy, WorksWithoutGradients) {
  const at::NoGradGuard no_grad;
  const Tensor hidden = at::randn({2, 5, 4}).requires_grad_(), weight = at::randn({9, 4}).requires_grad_();
  const auto out = linear_cross_entropy(hidden, weight, {}, some_labels());
  EXPECT_FALSE(out.loss.requires_grad());
}

TEST(CrossEntropy, RejectsMismatchedShapes) {
  const Tensor logits = at::zeros({2, 5, 9});
  EXPECT_THAT(
      [&] { cross_entropy(logits, at::zeros({2, 4}, at::kLong)); },
      ThrowsMessage<ShapeError>("[cross_entropy] labels must have the shape of the input without its last dimension; "
                                "got [2, 4] and [2, 5, 9]."));
  EXPECT_THAT([&] { cross_entropy(logits, at::full({2, 5}, 9, at::kLong)); },
              ThrowsMessage<ShapeError>("[cross_entropy] a label must be in [0, 9) or ignore_index -100; got 9."));
  EXPECT_THAT([&] { cross_entropy(logits, at::full({2, 5}, -1, at::kLong)); },
              ThrowsMessage<ShapeError>("[cross_entropy] a label must be in [0, 9) or ignore_index -100; got -1."));
  EXPECT_THAT([&] { cross_entropy(logits, at::zeros({2, 5})); },
              ThrowsMessage<ShapeError>("[cross_entropy] labels must be integers; got Float."));
  EXPECT_THAT([&] { cross_entropy(logits, at::zeros({2, 5}, at::kLong), {.label_smoothing = 1.0}); },
              ThrowsMessage<ConfigError>("[cross_entropy] label_smoothing must be in [0, 1); got 1."));
  EXPECT_THAT([&] { linear_cross_entropy(at::zeros({5, 4}), at::zeros({9, 3}), {}, at::zeros({5}, at::kLong)); },
              ThrowsMessage<ShapeError>(
                  "[linear_cross_entropy] weight must be [vocabulary, 4] for hidden [5, 4]; got [9, 3]."));
  EXPECT_THAT(
      [&] { linear_cross_entropy(at::zeros({5, 4}), at::zeros({9, 4}), at::zeros({8}), at::zeros({5}, at::kLong)); },
      ThrowsMessage<ShapeError>("[linear_cross_entropy] bias must be [9]; got [8]."));
}

TEST(ShiftLabels, PredictsTheNextTokenWithinASegment) {
  const Tensor labels = at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({1, 6});
  EXPECT_TRUE(at::equal(shift_labels(labels), at::tensor({2, 3, 4, 5, 6, -100}, at::kLong).view({1, 6})));
  const Tensor segments = at::tensor({0, 0, 1, 1, 1, 2}, at::kLong).view({1, 6});
  EXPECT_TRUE(at::equal(shift_labels(labels, -1, segments), at::tensor({2, -1, 4, 5, -1, -1}, at::kLong).view({1, 6})));
  EXPECT_TRUE(at::equal(shift_labels(labels.narrow(1, 0, 1)), at::tensor({-100}, at::kLong).view({1, 1})));
}

}  // namespace
}  // namespace easydel::operations
