#include "easydel/layers/attention/ring_attention.h"

#include <gmock/gmock.h>

#include <functional>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "tests/layers/ring_problems.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using at::Tensor;
using operations::AttentionOptions;
using ring::everyone;
using ring::kTokens;
using ring::Problem;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Results {
  Tensor out;
  std::vector<Tensor> gradients;
};

// The weights of the scalar loss; exact in bfloat16.
Tensor weights_of(at::IntArrayRef shape, at::ScalarType type) {
  const int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) + 1).view(shape).to(at::kBFloat16).to(type);
}

Results on_one_device(const Problem& p) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : p.inputs) leaves.push_back(input.detach().clone().requires_grad_());
  AttentionOptions options = p.options;
  options.mechanism = "vanilla";
  if (leaves.size() > 3) options.sinks = leaves[3];
  const Tensor out = operations::attention(leaves[0], leaves[1], leaves[2], options).out;
  return {out.detach(), torch::autograd::grad({out}, leaves, {weights_of(out.sizes(), out.scalar_type())})};
}

using RingFunction = std::function<Tensor(const std::vector<Tensor>&, const AttentionOptions&, const Group&)>;
Tensor plain_ring(const std::vector<Tensor>& x, const AttentionOptions& options, const Group& group) {
  return ring_attention(x[0], x[1], x[2], options, group);
}

// The concatenated parts of all ranks; gradients of sinks are summed.
Results on_ranks(const Problem& p, int64_t ranks, const RingFunction& attend = plain_ring) {
  std::vector<Results> parts(ranks);
  const int64_t total = p.inputs[0].size(1), tokens = total / ranks;
  const Tensor weights = weights_of({2, total, p.heads, p.value_size}, p.inputs[0].scalar_type());
  run_ranks(ranks, [&](World& world) {
    const int64_t begin = world.rank() * tokens;
    std::vector<Tensor> leaves;
    for (const Tensor& input : p.inputs) {
      const Tensor part = input.dim() == 1 ? input : input.narrow(1, begin, tokens);
      leaves.push_back(part.detach().clone().requires_grad_());
    }
    AttentionOptions options = p.options;
    if (leaves.size() > 3) options.sinks = leaves[3];
    const auto group = everyone(world);
    const Tensor out = attend(leaves, options, *group);
    out.backward(weights.narrow(1, begin, tokens));
    Results& result = parts[world.rank()];
    result.out = out.detach();
    for (const Tensor& leaf : leaves) result.gradients.push_back(leaf.grad());
  });
  Results all;
  const auto joined = [&](const std::function<Tensor(const Results&)>& pick) {
    std::vector<Tensor> tensors;
    for (const Results& part : parts) tensors.push_back(pick(part));
    return tensors[0].dim() == 1 ? at::stack(tensors).sum(0) : at::cat(tensors, 1);
  };
  all.out = joined([](const Results& r) { return r.out; });
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    all.gradients.push_back(joined([&](const Results& r) { return r.gradients[i]; }));
  }
  return all;
}

void expect_close(const Results& got, const Results& want, Tolerance tolerance) {
  EXPECT_TRUE(is_close(got.out, want.out, tolerance));
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    EXPECT_TRUE(is_close(got.gradients[i], want.gradients[i], tolerance)) << "gradient " << i;
  }
}

class RingAttentionOnRanks : public testing::TestWithParam<int64_t> {};
// With twelve ranks each has one token.
INSTANTIATE_TEST_SUITE_P(Ranks, RingAttentionOnRanks, testing::Values(1, 2, 3, 4, 12));

TEST_P(RingAttentionOnRanks, EqualsOneDeviceInValueAndGradients) {
  for (const Problem& p : ring::problems()) {
    SCOPED_TRACE(p.name);
    expect_close(on_ranks(p, GetParam()), on_one_device(p), {1e-10, 1e-10});
  }
}

TEST_P(RingAttentionOnRanks, DoesNotDependOnTheBlocks) {
  Problem p{"", 4, 2, 6, 3};
  p.options.mask.sliding_window = 7;
  p.options.dropout_p = 0.2;
  p.options.dropout_key = RandomKey(5);
  p.options.blocksize_q = 2;
  p.options.blocksize_k = 3;
  p.fill();
  expect_close(on_ranks(p, GetParam()), on_one_device(p), {1e-10, 1e-10});
}

TEST_P(RingAttentionOnRanks, GivesZerosAndZeroGradientsWithoutVisibleKeys) {
  Problem p{""};
  p.options.mask.padding_mask = ring::padding(0, 7);
  p.fill();
  const Results got = on_ranks(p, GetParam());
  const auto is_zero = [](const Tensor& t) { return t[0].narrow(0, 0, 7).eq(0).all().item<bool>(); };
  EXPECT_TRUE(is_zero(got.out));
  for (const Tensor& gradient : got.gradients) EXPECT_TRUE(is_zero(gradient));
  EXPECT_GT(got.out[0][7].abs().max().item<double>(), 0.0);
}

TEST_P(RingAttentionOnRanks, RoundsBfloat16ResultsOnce) {
  Problem p{"", 4, 2, 16, 16};
  p.options.mask.causal = false;
  const Problem half = Problem(p).fill(at::kBFloat16, 48);
  Problem wide = p;
  for (const Tensor& input : half.inputs) wide.inputs.push_back(input.to(at::kFloat));
  const Results got = on_ranks(half, GetParam()), want = on_one_device(wide);
  EXPECT_EQ(got.out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(is_close(got.out, want.out, {1.0 / 256, 1e-6}));
  for (const Tensor& gradient : got.gradients) EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(is_close(got.gradients[2], want.gradients[2], {1.0 / 256, 1e-6}));
  // Backward has only the rounded output, of which it sums the product with d_out.
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_close(got.gradients[i], want.gradients[i], {1.0 / 256, 1e-3})) << i;
}

TEST_P(RingAttentionOnRanks, AcceptsHeadsOfAFusedProjection) {
  Problem p{"", 4, 2, 6, 3};
  p.fill();
  const auto attend = [](const std::vector<Tensor>& x, const AttentionOptions& options, const Group& group) {
    const Tensor fused = at::cat({x[0].flatten(2), x[1].flatten(2), x[2].flatten(2)}, -1);
    const auto parts = fused.split_with_sizes({24, 12, 6}, -1);
    EXPECT_FALSE(parts[1].is_contiguous());
    const Tensor out = ring_attention(parts[0].unflatten(-1, {4, 6}), parts[1].unflatten(-1, {2, 6}),
                                      parts[2].unflatten(-1, {2, 3}), options, group);
    return out.transpose(1, 2).contiguous().transpose(1, 2);
  };
  expect_close(on_ranks(p, GetParam(), attend), on_one_device(p), {1e-10, 1e-10});
}

TEST_P(RingAttentionOnRanks, ComputesInTheRequestedType) {
  Problem p{""};
  p.fill(at::kFloat);
  Problem wide = p;
  for (Tensor& input : wide.inputs) input = input.to(at::kDouble);
  p.options.dtype = float64;
  const Results got = on_ranks(p, GetParam()), want = on_one_device(wide);
  EXPECT_EQ(got.out.scalar_type(), at::kFloat);
  EXPECT_TRUE(is_close(got.out, want.out, {1e-7, 1e-10}));
}

TEST_P(RingAttentionOnRanks, WorksWithoutHeads) {
  run_ranks(GetParam(), [&](World& world) {
    const auto group = everyone(world);
    const Tensor q = at::zeros({2, 3, 0, 8}).requires_grad_(), k = at::zeros({2, 3, 0, 8}).requires_grad_();
    const Tensor v = at::zeros({2, 3, 0, 5}).requires_grad_();
    const Tensor out = ring_attention(q, k, v, {}, *group);
    EXPECT_EQ(out.sizes(), (std::vector<int64_t>{2, 3, 0, 5}));
    out.sum().backward();
    for (const Tensor& t : {q, k, v}) EXPECT_EQ(t.grad().sizes(), t.sizes());
  });
}

TEST_P(RingAttentionOnRanks, PassesKeysOnWhereAMemberHasNoQueries) {
  Problem p{""};
  p.options.mask.causal = false;
  p.fill();
  const int64_t ranks = GetParam(), tokens = kTokens / ranks, without = ranks - 1;
  if (ranks == 1) return;
  std::vector<Tensor> d_k(ranks);
  run_ranks(ranks, [&](World& world) {
    const auto group = everyone(world);
    const auto part = [&](int i) { return p.inputs[i].narrow(1, world.rank() * tokens, tokens); };
    const Tensor q = world.rank() == without ? part(0).narrow(2, 0, 0) : part(0);
    const Tensor k = part(1).clone().requires_grad_();
    ring_attention(q, k, part(2), p.options, *group).sum().backward();
    d_k[world.rank()] = k.grad();
  });
  const Tensor k = p.inputs[1].clone().requires_grad_();
  AttentionOptions options = p.options;
  options.mechanism = "vanilla";
  operations::attention(p.inputs[0], k, p.inputs[2], options).out.narrow(1, 0, without * tokens).sum().backward();
  EXPECT_TRUE(is_close(at::cat(d_k, 1), k.grad(), {1e-10, 1e-10}));
}

TEST_P(RingAttentionOnRanks, CanBeCheckpointed) {
  Problem p{"", 4, 2, 6, 3};
  p.options.sinks = at::tensor({0.3, -1.0, 2.0, 0.0}, at::kDouble);
  p.fill();
  const Results want = on_one_device(p);
  for (const char* policy : {"nothing_saveable", "checkpoint_dots"}) {
    SCOPED_TRACE(policy);
    const auto attend = [&](const std::vector<Tensor>& x, const AttentionOptions& options, const Group& group) {
      const auto inner = [&group, given = options](const operations::TensorList& in) -> operations::TensorList {
        AttentionOptions with_sinks = given;
        with_sinks.sinks = in[3];
        return {ring_attention(in[0], in[1], in[2], with_sinks, group)};
      };
      return operations::checkpoint(inner, x, operations::CheckpointPolicy(policy))[0];
    };
    expect_close(on_ranks(p, GetParam(), attend), want, {1e-10, 1e-10});
  }
}

TEST(RingAttention, ReportsWhatItDoesNotSupport) {
  const auto run = [](const AttentionOptions& options, int64_t keys) {
    return [=] {
      run_ranks(2, [&](World& world) {
        const Tensor q = at::zeros({2, 3, 2, 4}), k = at::zeros({2, keys, 2, 4});
        ring_attention(q, k, k, options, *everyone(world));
      });
    };
  };
  EXPECT_THAT(run({.return_weights = true}, 3),
              ThrowsMessage<NotSupportedError>(HasSubstr(
                  "[ring_attention] attention weights are not supported. Use \"vanilla\" without a split sequence.")));
  EXPECT_THAT(run({.bias = at::zeros({1, 1, 6, 6}).requires_grad_()}, 3),
              ThrowsMessage<NotSupportedError>(HasSubstr("[ring_attention] a gradient of the bias is not supported.")));
  EXPECT_THAT(run({.mask = {.padding_mask = at::ones({2, 3}, at::kLong)}}, 3),
              ThrowsMessage<ShapeError>(HasSubstr("[MaskInfo] padding_mask must be [2, 6]; got [2, 3].")));
  EXPECT_THAT(run({}, 4), ThrowsMessage<ShapeError>(
                              HasSubstr("[ring_attention] q, k and v must be of the same tokens; got [2, 3, 2, 4], [2, "
                                        "4, 2, 4] and [2, 4, 2, 4].")));
}

}  // namespace
}  // namespace easydel
