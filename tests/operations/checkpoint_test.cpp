#include "easydel/operations/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/runtime.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/dropout.h"
#include "easydel/operations/linear/linear.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

// A small network whose parameters the closure captures. It counts its runs.
struct Net {
  Tensor w1 = at::randn({6, 4}, at::kDouble).requires_grad_(), w2 = at::randn({4, 6}, at::kDouble).requires_grad_();
  Tensor bias = at::randn({6}, at::kDouble).requires_grad_();
  std::shared_ptr<std::atomic<int>> runs = std::make_shared<std::atomic<int>>(0);

  TensorList operator()(const TensorList& in) const {
    ++*runs;
    Tensor h = at::tanh(linear(in[0], w1, bias, "mlp_up"));
    h = dropout(h, 0.3, RandomKey(5));
    const Tensor y = linear(h, w2, {}, "mlp_down") + in[0];
    return {y, h.sum(-1) * in[1]};
  }
  std::vector<Tensor> parameters() const { return {w1, w2, bias}; }
};

struct Gradients {
  std::vector<Tensor> values;
};

// The gradients of all parameters and inputs, after backward().
Gradients run(const Net& net, const std::function<TensorList(const TensorList&)>& apply) {
  const Tensor x = at::linspace(-1, 2, 12, at::kDouble).view({3, 4}).requires_grad_();
  const Tensor y = at::linspace(0.5, 1, 3, at::kDouble).requires_grad_();
  for (Tensor p : net.parameters()) p.mutable_grad().reset();
  const TensorList out = apply({x, y});
  ((out[0] * out[0]).sum() + out[1].sum()).backward();
  Gradients grads;
  for (const Tensor& p : net.parameters()) grads.values.push_back(p.grad().clone());
  grads.values.push_back(x.grad());
  grads.values.push_back(y.grad());
  return grads;
}

void expect_equal(const Gradients& a, const Gradients& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i)
    EXPECT_TRUE(is_close(a.values[i], b.values[i], {1e-13, 1e-13})) << i;
}

std::vector<std::string> targets_for(const std::string& policy) {
  return policy.starts_with("save_") ? std::vector<std::string>{"mlp_up"} : std::vector<std::string>{};
}

TEST(Checkpoint, GivesTheGradientsOfThePlainFunctionUnderEveryPolicy) {
  const Net net;
  const Gradients want = run(net, net);
  for (const std::string& name : checkpoint_policy_names()) {
    SCOPED_TRACE(name);
    const CheckpointPolicy policy(name, targets_for(name));
    *net.runs = 0;
    expect_equal(run(net, [&](const TensorList& in) { return checkpoint(net, in, policy); }), want);
    EXPECT_EQ(*net.runs, policy.recomputes() ? 2 : 1);
  }
}

TEST(Checkpoint, AccumulatesIntoParametersThatOtherCodeUsesToo) {
  const Net net;
  const auto twice = [&](const std::function<TensorList(const TensorList&)>& f) {
    return [f](const TensorList& in) {
      const TensorList first = f(in);
      return f({first[0], first[1]});
    };
  };
  expect_equal(run(net, twice([&](const TensorList& in) { return checkpoint(net, in); })), run(net, twice(net)));
}

TEST(Checkpoint, ReachesParametersWhenNoInputNeedsAGradient) {
  const Net net;
  const Tensor x = at::randn({3, 4}, at::kDouble), y = at::randn({3}, at::kDouble);
  checkpoint(net, {x, y})[0].sum().backward();
  EXPECT_GT(net.w1.grad().abs().max().item<double>(), 0.0);
}

TEST(Checkpoint, Nests) {
  const Net net;
  for (const char* outer : {"nothing_saveable", "checkpoint_dots"}) {
    for (const char* inner : {"nothing_saveable", "checkpoint_dots", "none"}) {
      SCOPED_TRACE(std::string(outer) + " around " + inner);
      const CheckpointPolicy outer_policy(outer), inner_policy(inner);
      const auto nested = [&](const TensorList& in) {
        return checkpoint(
            [&](const TensorList& x) {
              const TensorList first = checkpoint(net, x, inner_policy);
              return net({operations::linear(first[0], at::eye(4, at::kDouble)), first[1]});
            },
            in, outer_policy);
      };
      const auto plain = [&](const TensorList& in) {
        const TensorList first = net(in);
        return net({first[0], first[1]});
      };
      expect_equal(run(net, nested), run(net, plain));
    }
  }
}

TEST(Checkpoint, NestsDeeperThanTorchRunsOnOneThread) {
  const Tensor w = at::ones({1}, at::kDouble).requires_grad_();
  std::function<TensorList(const TensorList&, int)> deep = [&](const TensorList& in, int depth) -> TensorList {
    if (depth == 0) return {in[0] * w};
    return checkpoint([&, depth](const TensorList& x) { return deep({x[0] * w}, depth - 1); }, in);
  };
  const RankScope rank({.rank = 3, .world_size = 4});
  deep({at::ones({1}, at::kDouble).requires_grad_()}, 70)[0].backward();
  EXPECT_DOUBLE_EQ(w.grad().item<double>(), 71.0);
}

TEST(Checkpoint, RecomputesAsTheRankOfTheFirstRun) {
  std::vector<int64_t> seen;
  const auto note = [&](const TensorList& in) -> TensorList {
    seen.push_back(current_rank().rank);
    return {in[0] * 2};
  };
  Tensor out;
  {
    const RankScope rank({.rank = 2, .world_size = 4});
    out = checkpoint(note, {at::ones({1}).requires_grad_()})[0];
  }
  out.backward();
  EXPECT_THAT(seen, testing::ElementsAre(2, 2));
}

TEST(Checkpoint, WorksInRanksThatAreThreads) {
  const Net shared;
  const Gradients want = run(shared, shared);
  std::vector<Gradients> got(4);
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      at::set_num_threads(1);
      const RankScope rank({.rank = r, .world_size = 4});
      Net own = shared;
      own.w1 = shared.w1.detach().clone().requires_grad_();
      own.w2 = shared.w2.detach().clone().requires_grad_();
      own.bias = shared.bias.detach().clone().requires_grad_();
      got[r] = run(own, [&](const TensorList& in) { return checkpoint(own, in, CheckpointPolicy("checkpoint_dots")); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Gradients& each : got) expect_equal(each, want);
}

TEST(Checkpoint, PassesIntegersAndMissingTensorsThrough) {
  const auto f = [](const TensorList& in) -> TensorList {
    EXPECT_FALSE(in[1].defined());
    return {in[0] * 2, Tensor(), at::arange(3)};
  };
  const Tensor x = at::ones({3}).requires_grad_();
  const TensorList out = checkpoint(f, {x, Tensor()});
  EXPECT_FALSE(out[1].defined());
  EXPECT_TRUE(at::equal(out[2], at::arange(3)));
  EXPECT_FALSE(out[2].requires_grad());
  out[0].sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 2.0)));
}

TEST(Checkpoint, KeepsOnlyItsInputsAndTheDotsOfThePolicy) {
  const Tensor w = at::randn({256, 256}).requires_grad_();
  const auto f = [&](const TensorList& in) -> TensorList {
    Tensor x = in[0];
    for (int i = 0; i < 4; ++i) x = at::sigmoid(at::tanh(linear(x, w, {}, "mlp_up")));
    return {x};
  };
  const int64_t activation = 64 * 256 * 4, change = 4096;
  const auto held = [&](const char* policy) {
    const Tensor x = at::randn({64, 256}).requires_grad_();
    Tensor out;
    return held_bytes([&] { out = checkpoint(f, {x}, CheckpointPolicy(policy))[0]; });
  };
  EXPECT_LT(held("nothing_saveable"), activation + change);  // the output
  EXPECT_LT(held("checkpoint_dots"), 5 * activation + change);
  EXPECT_GE(held("none"), 8 * activation);
}

TEST(Checkpoint, DoesNotRecomputeKeptDots) {
  std::vector<std::string> computed;
  const Tensor w = at::randn({4, 4}, at::kDouble).requires_grad_();
  const auto f = [&](const TensorList& in) -> TensorList {
    Tensor x = in[0];
    for (const char* name : {"attn_query", "mlp_up", ""}) {
      keep_dot(name, [&] {
        computed.emplace_back(name);
        return x.detach();
      });
      x = at::tanh(linear(x, w, {}, name));
    }
    return {x};
  };
  const auto computed_under = [&](const char* policy) {
    computed.clear();
    const Tensor x = at::randn({2, 4}, at::kDouble).requires_grad_();
    checkpoint(f, {x}, CheckpointPolicy(policy, targets_for(policy)))[0].sum().backward();
    return std::vector<std::string>(computed.begin() + 3, computed.end());
  };
  using testing::ElementsAre;
  EXPECT_THAT(computed_under("nothing_saveable"), ElementsAre("attn_query", "mlp_up", ""));
  EXPECT_THAT(computed_under("checkpoint_dots"), ElementsAre());
  EXPECT_THAT(computed_under("dots_with_no_batch_dims_saveable"), ElementsAre());
  EXPECT_THAT(computed_under("save_only_these_names"), ElementsAre("attn_query", ""));
  EXPECT_THAT(computed_under("save_any_names_but_these"), ElementsAre("mlp_up", ""));
  EXPECT_THAT(computed_under("save_anything_except_these_names"), ElementsAre("mlp_up"));
  EXPECT_THAT(computed_under("save_from_both_policies"), ElementsAre());
  EXPECT_THAT(computed_under("mlp_notsaveable"), ElementsAre("mlp_up", ""));
  EXPECT_THAT(computed_under("attn_notsaveable"), ElementsAre("attn_query", ""));
  EXPECT_THAT(computed_under("mlp_attn_notsaveable"), ElementsAre("attn_query", "mlp_up", ""));
}

TEST(Checkpoint, KeepsAttentionAsADot) {
  const Tensor q = at::randn({1, 6, 2, 4}, at::kDouble);
  const auto f = [](const TensorList& in) -> TensorList {
    return {attention(in[0], at::tanh(in[0]), in[0], {.mechanism = "blockwise"}).out};
  };
  const auto gradient = [&](const char* policy) {
    const Tensor x = q.clone().requires_grad_();
    checkpoint(f, {x}, CheckpointPolicy(policy))[0].square().sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(is_close(gradient("checkpoint_dots"), gradient("none"), {1e-12, 1e-12}));
  EXPECT_TRUE(is_close(gradient("nothing_saveable"), gradient("none"), {1e-12, 1e-12}));
}

TEST(Checkpoint, KeepsAttentionWithALearnedBiasAsADot) {
  const Tensor q = at::randn({1, 6, 2, 4}, at::kDouble), w = at::randn({8, 8}, at::kDouble);
  const auto f = [&](const TensorList& in) -> TensorList {
    const Tensor attended = attention(in[0], at::tanh(in[0]), in[0], {.bias = in[1]}).out;
    return {linear(attended.flatten(-2), w, {}, "attn_output")};
  };
  const auto gradients = [&](const char* policy) {
    const Tensor x = q.clone().requires_grad_();
    const Tensor bias = at::linspace(-1, 1, 36, at::kDouble).view({1, 1, 6, 6}).clone().requires_grad_();
    checkpoint(f, {x, bias}, CheckpointPolicy(policy))[0].square().sum().backward();
    return std::vector<Tensor>{x.grad(), bias.grad()};
  };
  const auto want = gradients("none");
  for (const char* policy : {"checkpoint_dots", "nothing_saveable"}) {
    const auto got = gradients(policy);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-12, 1e-12})) << policy << " " << i;
  }
}

TEST(Checkpoint, RefusesAFunctionThatDiffersBetweenItsRuns) {
  const auto backward_with_dots = [](int first, int second) {
    int runs = 0;
    const auto f = [&](const TensorList& in) -> TensorList {
      for (int i = 0; i < (runs == 0 ? first : second); ++i) keep_dot("dot", [&] { return in[0].detach(); });
      ++runs;
      return {in[0].square()};
    };
    const Tensor x = at::randn({2}, at::kDouble).requires_grad_();
    checkpoint(f, {x}, CheckpointPolicy("checkpoint_dots"))[0].sum().backward();
  };
  backward_with_dots(2, 2);
  EXPECT_THAT([&] { backward_with_dots(1, 2); },
              ThrowsMessage<Error>("[checkpoint] the recomputation had more dots than the first run. The function must "
                                   "be deterministic."));
  EXPECT_THAT(
      [&] { backward_with_dots(2, 1); },
      ThrowsMessage<Error>("[checkpoint] the recomputation had fewer dots than the first run. The function must "
                           "be deterministic."));
}

TEST(Checkpoint, RunsBackwardTwice) {
  const Net net;
  const Tensor x = at::randn({3, 4}, at::kDouble).requires_grad_(), y = at::randn({3}, at::kDouble);
  const Tensor out = checkpoint(net, {x, y}, CheckpointPolicy("checkpoint_dots"))[0].sum();
  out.backward({}, /*retain_graph=*/true);
  const Tensor once = x.grad().clone();
  out.backward();
  EXPECT_TRUE(is_close(x.grad(), 2 * once, {1e-13, 1e-13}));
}

TEST(Checkpoint, RunsOnceWithoutGradients) {
  const Net net;
  const at::NoGradGuard no_grad;
  const TensorList out = checkpoint(net, {at::randn({3, 4}, at::kDouble), at::randn({3}, at::kDouble)});
  EXPECT_EQ(*net.runs, 1);
  EXPECT_FALSE(out[0].requires_grad());
}

TEST(CheckpointPolicy, ListsTheKnownNamesAndTheNearest) {
  EXPECT_THAT(
      [] { CheckpointPolicy("nothing_savable"); },
      ThrowsMessage<ConfigError>(
          "[CheckpointPolicy] unknown policy \"nothing_savable\"; known: \"\", \"none\", \"everything_saveable\", "
          "\"nothing_saveable\", \"checkpoint_dots\", \"checkpoint_dots_with_no_batch_dims\", \"dots_saveable\", "
          "\"dots_with_no_batch_dims_saveable\", \"save_anything_except_these_names\", \"save_any_names_but_these\", "
          "\"save_only_these_names\", \"save_from_both_policies\", \"mlp_notsaveable\", \"attn_notsaveable\", "
          "\"mlp_attn_notsaveable\". Did you mean \"nothing_saveable\"?"));
  EXPECT_THAT([] { CheckpointPolicy("save_only_these_names"); },
              ThrowsMessage<ConfigError>("[CheckpointPolicy] \"save_only_these_names\" needs names; got none. Set "
                                         "gradient_checkpointing_targets."));
}

}  // namespace
}  // namespace easydel::operations
