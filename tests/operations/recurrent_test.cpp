// Recurrences over whole sequences against themselves token by token, and their gradients against differences, in
// float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/operations/recurrent/causal_conv.h"
#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/operations/recurrent/runs.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;

constexpr Tolerance kExact{1e-9, 1e-11};

Tensor random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

// A recurrence of [B, T, …] inputs, and the shapes of one token of each.
struct Recurrence {
  const char* name;
  std::vector<std::vector<int64_t>> tokens;
  Recurred (*run)(const std::vector<Tensor>& inputs, const Tensor& state, const Tensor& runs);
};

// Positive time steps, decays below zero.
const std::vector<Recurrence> kAll = {
    {"selective scan",
     {{3}, {3}, {2}, {2}},
     [](const std::vector<Tensor>& in, const Tensor& state, const Tensor& runs) {
       const Tensor a = -at::arange(1, 7, in[0].options()).view({3, 2});
       return selective_scan(in[0], at::softplus(in[1]), a, in[2], in[3], state, runs);
     }},
    {"state space duality",
     {{4, 3}, {4}, {2, 5}, {2, 5}},
     [](const std::vector<Tensor>& in, const Tensor& state, const Tensor& runs) {
       const Tensor a = -at::arange(1, 5, in[0].options());
       return state_space_duality(in[0], at::softplus(in[1]), a, in[2], in[3], state, runs, 4);
     }},
    {"gated delta rule",
     {{2, 3}, {2, 3}, {4, 5}, {4}, {4}},
     [](const std::vector<Tensor>& in, const Tensor& state, const Tensor& runs) {
       return gated_delta_rule(in[0], in[1], in[2], -at::softplus(in[3]), at::sigmoid(in[4]), state, runs);
     }},
    {"gated delta rule, a decay for each channel",
     {{2, 3}, {2, 3}, {4, 5}, {4, 3}, {4}},
     [](const std::vector<Tensor>& in, const Tensor& state, const Tensor& runs) {
       return gated_delta_rule(in[0], in[1], in[2], -at::softplus(5 * in[3]), at::sigmoid(in[4]), state, runs);
     }},
};

std::vector<Tensor> inputs_of(const Recurrence& recurrence, int64_t tokens) {
  std::vector<Tensor> inputs;
  for (const std::vector<int64_t>& token : recurrence.tokens) {
    std::vector<int64_t> shape{2, tokens};
    shape.insert(shape.end(), token.begin(), token.end());
    inputs.push_back(random(shape));
  }
  return inputs;
}

std::vector<Tensor> cut(const std::vector<Tensor>& inputs, int64_t first, int64_t count) {
  std::vector<Tensor> parts;
  for (const Tensor& input : inputs) parts.push_back(input.narrow(1, first, count));
  return parts;
}

TEST(Recurrences, GiveTheSameInChunksAndTokenByToken) {
  at::manual_seed(1);
  for (const Recurrence& recurrence : kAll) {
    SCOPED_TRACE(recurrence.name);
    for (const int64_t tokens : {2, 13, 130}) {
      const std::vector<Tensor> inputs = inputs_of(recurrence, tokens);
      const Recurred whole = recurrence.run(inputs, {}, {});
      std::vector<Tensor> outs;
      Tensor state;
      for (int64_t t = 0; t < tokens; ++t) {
        const Recurred step = recurrence.run(cut(inputs, t, 1), state, {});
        outs.push_back(step.out);
        state = step.state;
      }
      EXPECT_TRUE(is_close(whole.out, at::cat(outs, 1), kExact));
      EXPECT_TRUE(is_close(whole.state, state, kExact));
      // And in two parts of any length.
      const Recurred first = recurrence.run(cut(inputs, 0, tokens / 2), {}, {});
      const Recurred second = recurrence.run(cut(inputs, tokens / 2, tokens - tokens / 2), first.state, {});
      EXPECT_TRUE(is_close(at::cat({first.out, second.out}, 1), whole.out, kExact));
    }
  }
}

TEST(Recurrences, BeginAnewWithEachDocument) {
  at::manual_seed(2);
  for (const Recurrence& recurrence : kAll) {
    SCOPED_TRACE(recurrence.name);
    for (const int64_t tokens : {11, 140}) {
      const std::vector<Tensor> inputs = inputs_of(recurrence, tokens);
      const int64_t border = tokens * 2 / 3;
      Tensor ids = at::zeros({2, tokens}, at::kLong);
      ids.narrow(1, 3, border - 3).fill_(7);
      ids.narrow(1, border, tokens - border).zero_();  // an id that was there before is another document
      const Recurred packed = recurrence.run(inputs, {}, document_runs(ids));
      const Recurred a = recurrence.run(cut(inputs, 0, 3), {}, {}),
                     b = recurrence.run(cut(inputs, 3, border - 3), {}, {}),
                     c = recurrence.run(cut(inputs, border, tokens - border), {}, {});
      EXPECT_TRUE(is_close(packed.out, at::cat({a.out, b.out, c.out}, 1), kExact));
      EXPECT_TRUE(is_close(packed.state, c.state, kExact));
    }
  }
}

TEST(Recurrences, HaveTheGradientsOfDifferences) {
  at::manual_seed(3);
  for (const Recurrence& recurrence : kAll) {
    for (const bool packed : {false, true}) {
      SCOPED_TRACE(concat(recurrence.name, packed ? ", packed" : ""));
      std::vector<Tensor> inputs = inputs_of(recurrence, 6);
      const Tensor runs = packed ? at::tensor({0, 0, 1, 1, 1, 2, 0, 0, 0, 0, 1, 1}, at::kLong).view({2, 6}) : Tensor();
      if (!packed) inputs.push_back(random(recurrence.run(inputs, {}, {}).state.sizes()));
      const auto value = [&](const std::vector<Tensor>& at) {
        const Recurred done =
            recurrence.run({at.begin(), at.begin() + static_cast<std::ptrdiff_t>(recurrence.tokens.size())},
                           packed ? Tensor() : at.back(), runs);
        return at::cat({done.out.flatten(), done.state.flatten()});
      };
      EXPECT_TRUE(gradients_match_differences(value, inputs));
    }
  }
}

TEST(CausalConv, IsTorchsConvolutionWithPaddingInFront) {
  at::manual_seed(4);
  const Tensor x = random({2, 9, 5}), weight = random({5, 1, 4}), bias = random({5});
  const Tensor expected = at::conv1d(x.transpose(1, 2), weight, bias, 1, 3, 1, 5).narrow(2, 0, 9).transpose(1, 2);
  EXPECT_TRUE(is_close(causal_conv(x, weight, bias, {}, {}), expected, kExact));
  // In parts, and for documents of their own.
  const Tensor a = x.narrow(1, 0, 2), b = x.narrow(1, 2, 7);
  const Tensor before = last_inputs(a, {}, 4);
  EXPECT_EQ(before.size(1), 3);
  EXPECT_TRUE(is_close(causal_conv(b, weight, bias, before, {}), expected.narrow(1, 2, 7), kExact));
  const Tensor ids = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1}, at::kLong).expand({2, 9});
  EXPECT_TRUE(is_close(causal_conv(x, weight, bias, {}, document_runs(ids)),
                       at::cat({causal_conv(a, weight, bias, {}, {}), causal_conv(b, weight, bias, {}, {})}, 1),
                       kExact));
  EXPECT_TRUE(gradients_match_differences(
      [&](const std::vector<Tensor>& at) { return causal_conv(at[0], at[1], at[2], {}, document_runs(ids)); },
      {x, weight, bias}));
}

}  // namespace
}  // namespace easydel::operations
