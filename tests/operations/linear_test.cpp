#include "easydel/operations/linear/linear.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/dropout.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

TEST(Linear, EqualsTorchInsideAndOutsideACheckpoint) {
  at::manual_seed(0);
  const std::vector<Tensor> in = {at::randn({2, 3, 4}, at::kDouble), at::randn({5, 4}, at::kDouble),
                                  at::randn({5}, at::kDouble)};
  const auto theirs = [](const std::vector<Tensor>& x) { return at::linear(x[0], x[1], x[2]); };
  const auto ours = [](const std::vector<Tensor>& x) { return linear(x[0], x[1], x[2]); };
  const auto checkpointed = [](const std::vector<Tensor>& x) {
    return checkpoint([](const TensorList& t) -> TensorList { return {linear(t[0], t[1], t[2])}; }, x,
                      CheckpointPolicy("checkpoint_dots"))[0];
  };
  for (const Differentiable& f : {Differentiable(ours), Differentiable(checkpointed)}) {
    EXPECT_TRUE(is_close(f(in), theirs(in), {1e-13, 1e-13}));
    const auto got = gradients_of(f, in), want = gradients_of(theirs, in);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-12, 1e-13})) << i;
  }
}

TEST(Linear, CastsAMasterWeightWithoutKeepingTheCopy) {
  const Tensor x = at::randn({8, 256}).to(at::kBFloat16), w = at::randn({256, 256}).requires_grad_(),
               b = at::randn({256});
  Tensor y;
  const int64_t held = held_bytes([&] { y = linear(x, w, b); });
  EXPECT_LT(held, y.numel() * 2 + 1024);  // only the result
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y, at::linear(x, w.to(at::kBFloat16), b.to(at::kBFloat16))));
  y.sum().backward();
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
}

TEST(Linear, GradientsOf16BitsAreThoseOfFloat32Rounded) {
  at::manual_seed(2);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const double rounding = type == at::kHalf ? 0x1p-10 : 0x1p-7;
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{6, 128, 700}, {70, 96, 130}, {300, 200, 40}}) {
      for (const bool transposed : {false, true}) {
        const std::vector<Tensor> inputs = {
            at::randn({2, rows / 2, in}).to(type),
            at::randn(transposed ? at::IntArrayRef{in, out} : at::IntArrayRef{out, in}).to(type),
            at::randn({out}).to(type)};
        std::vector<Tensor> wide;
        for (const Tensor& t : inputs) wide.push_back(t.to(at::kDouble));
        const auto f = [&](const std::vector<Tensor>& t) {
          return linear(t[0], t[1], t[2], {}, {.transposed = transposed});
        };
        const auto plain = [&](const std::vector<Tensor>& t) {
          return at::linear(t[0], transposed ? t[1].t() : t[1], t[2]);
        };
        const Tensor y = f(inputs), want = plain(wide);
        EXPECT_EQ(y.scalar_type(), type);
        EXPECT_TRUE(is_close(y.to(at::kDouble), want, {rounding, rounding * std::sqrt(double(in))}));
        // The gradient of the result is rounded to the type, too: it is the same for both.
        const Tensor weights = at::sin(at::arange(want.numel(), at::kDouble)).view(want.sizes()).to(type);
        const auto gradients = [&](const auto& function, std::vector<Tensor> of) {
          for (Tensor& t : of) t.detach_().requires_grad_();
          function(of).backward(weights.to(of[0].scalar_type()));
          return std::vector{of[0].grad(), of[1].grad(), of[2].grad()};
        };
        const auto got = gradients(f, inputs), wanted = gradients(plain, wide);
        for (std::size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(got[i].scalar_type(), type);
          EXPECT_TRUE(is_close(got[i].to(at::kDouble), wanted[i], {rounding, rounding * std::sqrt(double(rows * out))}))
              << i << " " << rows << " " << in << " " << out;
        }
      }
    }
  }
}

TEST(Linear, EqualsTorchForAFewVectors) {
  at::manual_seed(1);
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 0.02;
    for (const int64_t width : {1, 15, 64, 100, 577}) {
      for (const int64_t vectors : {1, 3, 4, 5, 10, 63}) {
        const Tensor x = at::randn({vectors, 1, width}).to(type);
        std::vector<LinearMap> maps;
        for (const int64_t rows : {1, 700, 33})
          maps.push_back({at::randn({rows, width}).to(type), rows == 33 ? at::randn({rows}).to(type) : Tensor()});
        const std::vector<Tensor> got = linears(x, maps);
        for (std::size_t i = 0; i < maps.size(); ++i) {
          const auto wide = [](const Tensor& t) { return t.defined() ? t.to(at::kDouble) : t; };
          const Tensor want = at::linear(wide(x), wide(maps[i].weight), wide(maps[i].bias));
          EXPECT_EQ(got[i].scalar_type(), type);
          EXPECT_TRUE(is_close(got[i].to(at::kDouble), want, {tolerance, tolerance * std::sqrt(double(width))}))
              << type << " " << width << " " << vectors;
        }
      }
    }
  }
}

TEST(Linear, HasTheSameBitsWithGradientsAndWithout) {
  at::manual_seed(2);
  for (const int64_t vectors : {5, 8, 17, 63, 64, 100}) {
    const Tensor x = at::randn({vectors, 77}), bias = at::randn({45});
    const Tensor weight = at::randn({45, 77}).requires_grad_();
    const Tensor with = operations::linear(x, weight, bias);
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(with.requires_grad());
    EXPECT_TRUE(with.equal(operations::linear(x, weight, bias))) << vectors;
    EXPECT_TRUE(with.equal(linears(x, {{weight, bias}})[0])) << vectors;
  }
}

TEST(Linear, RejectsMismatchedShapes) {
  EXPECT_THAT(
      [] { operations::linear(at::zeros({2, 3}), at::zeros({5, 4})); },
      ThrowsMessage<ShapeError>("[linear] x's last dimension must be the weight's second; got [2, 3] and [5, 4]."));
  EXPECT_THAT([] { operations::linear(at::zeros({2, 4}), at::zeros({5, 4}), at::zeros({4})); },
              ThrowsMessage<ShapeError>("[linear] bias must be [5]; got [4]."));
}

TEST(Dropout, DropsTheShareAndKeepsTheMean) {
  const Tensor x = at::ones({200, 500});
  const Tensor y = dropout(x, 0.3, RandomKey(1));
  EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), 0.3, 0.01);
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.01);
  EXPECT_TRUE(at::equal(y, dropout(x, 0.3, RandomKey(1))));
  EXPECT_FALSE(at::equal(y, dropout(x, 0.3, RandomKey(2))));
  EXPECT_TRUE(dropout(x, 0.0, RandomKey(1)).is_same(x));
}

TEST(Dropout, GradientsPassWhereTheValuesDid) {
  const Tensor x = at::ones({20, 20}, at::kDouble).requires_grad_();
  const Tensor y = dropout(x, 0.5, RandomKey(4));
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
}

TEST(Dropout, APartDropsTheSameAsTheFullTensor) {
  const Tensor x = at::ones({8, 6});
  const Region region{{8, 6}, {4, 2}};
  EXPECT_TRUE(at::equal(dropout(at::ones({3, 4}), 0.5, RandomKey(4), &region),
                        dropout(x, 0.5, RandomKey(4)).narrow(0, 4, 3).narrow(1, 2, 4)));
}

TEST(Dropout, EveryTypeDropsTheSame) {
  const Tensor wide = dropout(at::ones({100}, at::kDouble), 0.4, RandomKey(9));
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(at::equal(dropout(at::ones({100}, type), 0.4, RandomKey(9)).ne(0), wide.ne(0)));
  }
}

TEST(Dropout, RejectsAnInvalidProbability) {
  EXPECT_THAT([] { dropout(at::ones({2}), 1.0, RandomKey(1)); },
              ThrowsMessage<ConfigError>("[dropout] p must be in [0, 1); got 1."));
}

}  // namespace
}  // namespace easydel::operations
