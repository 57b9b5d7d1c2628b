#include "easydel/operations/attention/attention.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "easydel/core/error.h"
#include "easydel/operations/attention/blockwise.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Problem {
  std::string name;
  int64_t batch = 2, queries = 13, keys = 13, heads = 4, kv_heads = 2, head_size = 8, value_size = 8;
  AttentionOptions options = {};
  Tensor q, k, v;

  Problem& fill() {
    at::manual_seed(7);
    q = at::randn({batch, queries, heads, head_size}, at::kDouble);
    k = at::randn({batch, keys, kv_heads, head_size}, at::kDouble);
    v = at::randn({batch, keys, kv_heads, value_size}, at::kDouble);
    options.blocksize_q = 5;  // several blocks, and a remainder
    options.blocksize_k = 4;
    return *this;
  }
};

Tensor longs(std::vector<int64_t> values, int64_t rows) { return at::tensor(values, at::kLong).view({rows, -1}); }

Tensor padding(int64_t batch, int64_t keys, int64_t left, int64_t right) {
  Tensor mask = at::ones({batch, keys}, at::kLong);
  mask[0].narrow(0, 0, left).zero_();
  mask[0].narrow(0, keys - right, right).zero_();
  return mask;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  const auto add = [&](const char* name) -> Problem& { return all.emplace_back(Problem{name}); };
  add("causal");
  add("everything").options.mask.causal = false;
  {
    Problem& p = add("one kv head");
    p.kv_heads = 1;
  }
  {
    Problem& p = add("as many kv heads as heads");
    p.kv_heads = 4;
  }
  add("other value size, smaller").value_size = 5;
  add("other value size, larger").value_size = 11;
  add("scale").options.scale = 0.7;
  add("window").options.mask.sliding_window = 3;
  {
    Problem& p = add("window both ways");
    p.options.mask.causal = false;
    p.options.mask.sliding_window = 4;
  }
  add("left padding").options.mask.padding_mask = padding(2, 13, 4, 0);
  add("right padding").options.mask.padding_mask = padding(2, 13, 0, 6);
  add("a row of padding alone").options.mask.padding_mask = padding(2, 13, 13, 0);
  {
    Problem& p = add("padding, not causal");
    p.options.mask.causal = false;
    p.options.mask.padding_mask = padding(2, 13, 2, 3);
  }
  add("packed").options.mask.q_segment_ids =
      longs({0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, -1, -1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4}, 2);
  {
    Problem& p = add("packed, window, padding");
    p.options.mask.q_segment_ids =
        longs({0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4}, 2);
    p.options.mask.sliding_window = 3;
    p.options.mask.padding_mask = padding(2, 13, 2, 1);
  }
  add("decode").queries = 1;
  add("decode several").queries = 3;
  {
    Problem& p = add("decode, window");
    p.queries = 1;
    p.options.mask.sliding_window = 5;
  }
  {
    Problem& p = add("decode, padding");
    p.queries = 1;
    p.options.mask.padding_mask = padding(2, 13, 5, 0);
  }
  {
    Problem& p = add("static cache");
    p.queries = 2;
    p.options.mask.q_offset = 6;
  }
  {
    Problem& p = add("decode at different places");
    p.queries = 1;
    p.options.mask.q_positions = longs({3, 9}, 2);
  }
  {
    Problem& p = add("explicit mask of each head");
    at::manual_seed(1);
    p.options.mask.explicit_mask = at::rand({1, 4, 13, 13}).gt(0.4);
  }
  {
    Problem& p = add("bias");
    at::manual_seed(2);
    p.options.bias = at::randn({1, 4, 1, 13}, at::kDouble);
  }
  {
    Problem& p = add("bias and padding");
    at::manual_seed(2);
    p.options.bias = at::randn({2, 1, 13, 13}, at::kDouble);
    p.options.mask.padding_mask = padding(2, 13, 3, 0);
  }
  for (Problem& p : all) p.fill();
  return all;
}

// Options that only vanilla and blockwise support.
std::vector<Problem> special_problems() {
  std::vector<Problem> all;
  const auto add = [&](const char* name) -> Problem& { return all.emplace_back(Problem{name}); };
  add("softcap").options.softcap = 0.8;
  {
    Problem& p = add("softcap, bias, window");
    p.options.softcap = 0.8;
    p.options.bias = at::linspace(-1, 1, 13, at::kDouble).view({1, 1, 1, 13});
    p.options.mask.sliding_window = 6;
  }
  {
    Problem& p = add("sinks");
    p.options.sinks = at::tensor({0.3, -1.0, 2.0, 0.0}, at::kDouble);
  }
  {
    Problem& p = add("sinks and left padding");
    p.options.sinks = at::tensor({0.3, -1.0, 2.0, 0.0}, at::kDouble);
    p.options.mask.padding_mask = padding(2, 13, 4, 0);
  }
  {
    Problem& p = add("dropout");
    p.options.dropout_p = 0.4;
    p.options.dropout_key = RandomKey(11);
  }
  {
    Problem& p = add("dropout, softcap, packed");
    p.options.dropout_p = 0.2;
    p.options.dropout_key = RandomKey(12);
    p.options.softcap = 2.0;
    p.options.mask.q_segment_ids =
        longs({0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4}, 2);
  }
  {
    Problem& p = add("decode with sinks");
    p.queries = 1;
    p.options.sinks = at::tensor({0.3, -1.0, 2.0, 0.0}, at::kDouble);
  }
  for (Problem& p : all) p.fill();
  return all;
}

Tensor run(const Problem& p, const std::string& mechanism, const std::vector<Tensor>& qkv, bool with_sinks = false) {
  AttentionOptions options = p.options;
  options.mechanism = mechanism;
  if (with_sinks) options.sinks = qkv[3];
  return attention(qkv[0], qkv[1], qkv[2], options).out;
}

// One number at a time, from the definition.
Tensor by_hand(const Problem& p) {
  const Tensor seen = p.options.mask.to_bool(p.queries, p.keys, at::kCPU).expand({p.batch, p.heads, p.queries, p.keys});
  const double scale = p.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.head_size)));
  Tensor out = at::zeros({p.batch, p.queries, p.heads, p.value_size}, at::kDouble);
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t n = 0; n < p.heads; ++n) {
      const int64_t kv = n / (p.heads / p.kv_heads);
      for (int64_t t = 0; t < p.queries; ++t) {
        std::vector<double> weight(p.keys, 0.0);
        double sum = p.options.sinks.defined() ? std::exp(p.options.sinks[n].item<double>()) : 0.0;
        for (int64_t s = 0; s < p.keys; ++s) {
          if (!seen[b][n][t][s].item<bool>()) continue;
          double score = at::dot(p.q[b][t][n], p.k[b][s][kv]).item<double>() * scale;
          if (p.options.softcap != 0.0) score = p.options.softcap * std::tanh(score / p.options.softcap);
          if (p.options.bias.defined()) {
            score += p.options.bias.expand({p.batch, p.heads, p.queries, p.keys})[b][n][t][s].item<double>();
          }
          sum += weight[s] = std::exp(score);
        }
        for (int64_t s = 0; s < p.keys; ++s) {
          if (weight[s] > 0.0) out[b][t][n] += p.v[b][s][kv] * (weight[s] / sum);
        }
      }
    }
  }
  return out;
}

TEST(VanillaAttention, IsTheDefinition) {
  for (const auto& list : {problems(), special_problems()}) {
    for (const Problem& p : list) {
      if (p.options.dropout_p > 0.0) continue;
      SCOPED_TRACE(p.name);
      EXPECT_TRUE(is_close(run(p, "vanilla", {p.q, p.k, p.v}), by_hand(p), {1e-12, 1e-12}));
    }
  }
}

TEST(VanillaAttention, GradientsMatchDifferences) {
  Problem p{"", 1, 4, 4, 2, 1, 3, 2};
  p.options.mask.padding_mask = padding(1, 4, 1, 0);
  p.options.softcap = 1.5;
  p.options.sinks = at::tensor({0.3, -1.0}, at::kDouble);
  p.fill();
  EXPECT_TRUE(gradients_match_differences([&](const std::vector<Tensor>& x) { return run(p, "vanilla", x, true); },
                                          {p.q, p.k, p.v, p.options.sinks}));
}

TEST(VanillaAttention, GivesTheGradientOfTheBias) {
  Problem p{"", 1, 3, 3, 2, 2, 2, 2};
  p.fill();
  const Tensor bias = at::randn({1, 1, 3, 3}, at::kDouble);
  for (const char* mechanism : {"vanilla", "auto", "blockwise", "sdpa"}) {
    EXPECT_TRUE(gradients_match_differences(
        [&](const std::vector<Tensor>& x) {
          AttentionOptions options = p.options;
          options.mechanism = mechanism;
          options.bias = x[0];
          return attention(p.q, p.k, p.v, options).out;
        },
        {bias}));
  }
}

class EveryMechanism : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Attention, EveryMechanism,
                         testing::Values("sdpa", "flash", "flash_attn2", "blockwise", "ring", "auto"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryMechanism, EqualsVanillaInValueAndGradient) {
  for (const Problem& p : problems()) {
    SCOPED_TRACE(p.name);
    EXPECT_TRUE(is_close(run(p, GetParam(), {p.q, p.k, p.v}), run(p, "vanilla", {p.q, p.k, p.v}), {1e-10, 1e-10}));
    const auto got = gradients_of([&](const auto& x) { return run(p, GetParam(), x); }, {p.q, p.k, p.v});
    const auto want = gradients_of([&](const auto& x) { return run(p, "vanilla", x); }, {p.q, p.k, p.v});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-9, 1e-10})) << "gradient " << i;
  }
}

TEST_P(EveryMechanism, GivesZerosAndZeroGradientsWithoutVisibleKeys) {
  Problem p{"", 2, 6, 6};
  p.options.mask.padding_mask = padding(2, 6, 3, 0);
  p.fill();
  const Tensor out = run(p, GetParam(), {p.q, p.k, p.v});
  EXPECT_TRUE(at::equal(out[0].narrow(0, 0, 3), at::zeros_like(out[0].narrow(0, 0, 3))));
  EXPECT_GT(out[0][3].abs().max().item<double>(), 0.0);
  const auto grads = gradients_of([&](const auto& x) { return run(p, GetParam(), x); }, {p.q, p.k, p.v});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(grads[i].isnan().any().item<bool>());
    EXPECT_TRUE(at::equal(grads[i][0].narrow(0, 0, 3), at::zeros_like(grads[i][0].narrow(0, 0, 3))));
  }
}

TEST_P(EveryMechanism, IsAccurateInBfloat16UpToRounding) {
  Problem p{"", 2, 40, 40, 4, 2, 16, 16};
  p.options.mask.padding_mask = padding(2, 40, 7, 0);
  p.fill();
  p.options.blocksize_q = p.options.blocksize_k = 16;
  const std::vector<Tensor> half = {p.q.to(at::kBFloat16), p.k.to(at::kBFloat16), p.v.to(at::kBFloat16)};
  const std::vector<Tensor> wide = {half[0].to(at::kDouble), half[1].to(at::kDouble), half[2].to(at::kDouble)};
  EXPECT_EQ(run(p, GetParam(), half).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(is_close(run(p, GetParam(), half), run(p, "vanilla", wide), {0.02, 0.01}));
  const auto got = gradients_of([&](const auto& x) { return run(p, GetParam(), x); }, half);
  const auto want = gradients_of([&](const auto& x) { return run(p, "vanilla", x); }, wide);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_close(got[i], want[i], {0.05, 0.05})) << "gradient " << i;
}

TEST_P(EveryMechanism, DecodingGivesTheLastRowsOfTheFullResult) {
  Problem p{"", 2, 9, 9};
  p.options.mask.sliding_window = 4;
  p.fill();
  const Tensor all = run(p, GetParam(), {p.q, p.k, p.v});
  for (int64_t at = 0; at < 9; ++at) {
    const Tensor one = run(p, GetParam(), {p.q.narrow(1, at, 1), p.k.narrow(1, 0, at + 1), p.v.narrow(1, 0, at + 1)});
    EXPECT_TRUE(is_close(one, all.narrow(1, at, 1), {1e-10, 1e-12})) << "token " << at;
  }
}

TEST_P(EveryMechanism, AcceptsHeadsOfAFusedProjection) {
  Problem p{"", 2, 7, 7};
  p.fill();
  const Tensor fused = at::cat({p.q.flatten(2), p.k.flatten(2), p.v.flatten(2)}, -1);
  const auto heads = [&](int64_t from, int64_t count) {
    return fused.narrow(-1, from, count * p.head_size).unflatten(-1, {count, p.head_size});
  };
  const std::vector<Tensor> views = {heads(0, 4), heads(4 * p.head_size, 2), heads(6 * p.head_size, 2)};
  ASSERT_FALSE(views[0].is_contiguous());
  EXPECT_TRUE(is_close(run(p, GetParam(), views), run(p, GetParam(), {p.q, p.k, p.v}), {1e-12, 1e-12}));
}

TEST_P(EveryMechanism, ComputesInTheRequestedType) {
  Problem p{"", 1, 5, 5};
  p.fill();
  p.options.dtype = float64;
  const std::vector<Tensor> half = {p.q.to(at::kBFloat16), p.k.to(at::kBFloat16), p.v.to(at::kBFloat16)};
  const Tensor out = run(p, GetParam(), half);
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  const Tensor want =
      run(p, "vanilla", {half[0].to(at::kDouble), half[1].to(at::kDouble), half[2].to(at::kDouble)}).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(out, want));
}

TEST(BlockwiseAttention, SupportsAllOptionsOfVanilla) {
  for (const Problem& p : special_problems()) {
    SCOPED_TRACE(p.name);
    const bool sinks = p.options.sinks.defined();
    std::vector<Tensor> inputs = {p.q, p.k, p.v};
    if (sinks) inputs.push_back(p.options.sinks);
    for (const char* mechanism : {"blockwise", "ring", "auto"}) {
      EXPECT_TRUE(is_close(run(p, mechanism, inputs, sinks), run(p, "vanilla", inputs, sinks), {1e-10, 1e-10}));
      const auto got = gradients_of([&](const auto& x) { return run(p, mechanism, x, sinks); }, inputs);
      const auto want = gradients_of([&](const auto& x) { return run(p, "vanilla", x, sinks); }, inputs);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(is_close(got[i], want[i], {1e-9, 1e-10})) << "gradient " << i;
    }
  }
}

TEST(BlockwiseAttention, EqualsVanillaForFewQueriesOfDrawnShapes) {
  std::mt19937 random(3);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const auto whether = [&] { return draw(0, 1) == 1; };
  for (int64_t i = 0; i < 60; ++i) {
    Problem p{"", draw(1, 3), draw(1, 5), draw(5, 80)};
    p.kv_heads = draw(1, 3);
    p.heads = p.kv_heads * draw(1, 3);
    p.head_size = draw(1, 40);
    p.value_size = draw(1, 80);
    p.fill();
    p.options.blocksize_q = p.options.blocksize_k = 512;
    p.options.mask.causal = whether();
    if (whether()) p.options.mask.sliding_window = draw(1, 40);
    if (whether()) p.options.mask.padding_mask = padding(p.batch, p.keys, draw(0, 2), draw(0, 2));
    if (whether()) p.options.softcap = 2.0;
    if (whether()) p.options.sinks = at::randn({p.heads}, at::kDouble);
    if (whether()) {
      const auto one_or = [&](int64_t size) { return whether() ? size : 1; };
      p.options.bias = at::randn({one_or(p.batch), one_or(p.heads), one_or(p.queries), one_or(p.keys)}, at::kDouble);
    }
    if (whether()) p.options.mask.explicit_mask = at::rand({1, whether() ? p.heads : 1, p.queries, p.keys}).gt(0.4);
    SCOPED_TRACE(i);
    EXPECT_TRUE(is_close(run(p, "blockwise", {p.q, p.k, p.v}), run(p, "vanilla", {p.q, p.k, p.v}), {1e-10, 1e-10}));
    const auto got = gradients_of([&](const auto& x) { return run(p, "blockwise", x); }, {p.q, p.k, p.v});
    const auto want = gradients_of([&](const auto& x) { return run(p, "vanilla", x); }, {p.q, p.k, p.v});
    for (std::size_t j = 0; j < got.size(); ++j)
      EXPECT_TRUE(is_close(got[j], want[j], {1e-9, 1e-10})) << "gradient " << j;
  }
}

TEST(BlockwiseAttention, GradientsMatchDifferences) {
  Problem p{"", 1, 5, 5, 2, 1, 3, 2};
  p.options.mask.sliding_window = 4;
  p.options.softcap = 1.5;
  p.options.sinks = at::tensor({0.3, -1.0}, at::kDouble);
  p.fill();
  p.options.blocksize_q = 2;
  p.options.blocksize_k = 3;
  EXPECT_TRUE(gradients_match_differences([&](const std::vector<Tensor>& x) { return run(p, "blockwise", x, true); },
                                          {p.q, p.k, p.v, p.options.sinks}));
}

TEST(BlockwiseAttention, GivesTheGradientOfAnyBias) {
  Problem p{"bias"};
  p.options.softcap = 2.0;
  p.options.mask.sliding_window = 6;
  p.options.mask.padding_mask = padding(2, 13, 0, 13);  // a row without visible keys
  p.fill();
  const auto gradients = [&](const char* mechanism, const Tensor& bias) {
    const auto run_with = [&](const std::vector<Tensor>& x) {
      Problem with = p;
      with.options.bias = x[3];
      return run(with, mechanism, x);
    };
    return gradients_of(run_with, {p.q, p.k, p.v, bias});
  };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 1, 1, 1}, {1, 4, 1, 13}, {2, 1, 13, 1}, {1, 4, 13, 13}, {2, 4, 13, 13}}) {
    const Tensor bias = at::randn(shape, at::kDouble);
    const auto got = gradients("blockwise", bias), want = gradients("vanilla", bias);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-9, 1e-10})) << bias.sizes() << " " << i;
  }
}

TEST(BlockwiseAttention, DoesNotDependOnTheBlocks) {
  for (const Problem& given : special_problems()) {
    SCOPED_TRACE(given.name);
    Problem p = given;
    const Tensor want = run(p, "blockwise", {p.q, p.k, p.v});
    for (const int64_t size : {1, 3, 13, 512}) {
      p.options.blocksize_q = size;
      p.options.blocksize_k = size + 1;
      EXPECT_TRUE(is_close(run(p, "blockwise", {p.q, p.k, p.v}), want, {1e-11, 1e-12})) << size;
    }
  }
}

TEST(BlockwiseAttention, ComposedFormEqualsTheKernels) {
  for (const auto& list : {problems(), special_problems()}) {
    for (const Problem& p : list) {
      SCOPED_TRACE(p.name);
      AttentionOptions options = p.options;
      if (!options.scale) options.scale = 0.3;
      const auto a = blockwise::forward_on_cpu(p.q, p.k, p.v, options);
      const auto b = blockwise::forward_composed(p.q, p.k, p.v, options);
      EXPECT_TRUE(is_close(b.out, a.out, {1e-11, 1e-12}));
      EXPECT_TRUE(is_close(b.lse, a.lse, {1e-11, 1e-12}));
      const Tensor d_out = at::randn_like(a.out);
      const auto da = blockwise::backward_on_cpu(p.q, p.k, p.v, options, a, d_out);
      const auto db = blockwise::backward_composed(p.q, p.k, p.v, options, b, d_out);
      EXPECT_TRUE(is_close(db.d_q, da.d_q, {1e-10, 1e-11}));
      EXPECT_TRUE(is_close(db.d_k, da.d_k, {1e-10, 1e-11}));
      EXPECT_TRUE(is_close(db.d_v, da.d_v, {1e-10, 1e-11}));
      EXPECT_TRUE(is_close(db.d_sinks, da.d_sinks, {1e-10, 1e-11}));
    }
  }
}

TEST(BlockwiseAttention, RoundsLastOrLeavesRoundingToTheCaller) {
  Problem p{"", 2, 13, 13};
  p.fill();
  p.options.scale = 0.3;
  const Tensor q = p.q.to(at::kBFloat16), k = p.k.to(at::kBFloat16), v = p.v.to(at::kBFloat16);
  for (const auto forward : {blockwise::forward_on_cpu, blockwise::forward_composed, blockwise::forward}) {
    const Tensor wide = forward(q, k, v, p.options, blockwise::OutType::Wide).out;
    EXPECT_EQ(wide.scalar_type(), at::kFloat);
    EXPECT_FALSE(at::equal(wide, wide.to(at::kBFloat16).to(at::kFloat)));
    EXPECT_TRUE(at::equal(forward(q, k, v, p.options, blockwise::OutType::Same).out, wide.to(at::kBFloat16)));
  }
}

TEST(BlockwiseAttention, EqualsVanillaInFloat32OverManyBlocks) {
  Problem p{"", 1, 1500, 1500, 2, 1, 32, 32};
  p.fill();
  p.options.blocksize_q = p.options.blocksize_k = 512;
  const std::vector<Tensor> qkv = {p.q.to(at::kFloat), p.k.to(at::kFloat), p.v.to(at::kFloat)};
  EXPECT_TRUE(is_close(run(p, "blockwise", qkv), run(p, "vanilla", {p.q, p.k, p.v}), {1e-5, 2e-6}));
  const auto got = gradients_of([&](const auto& x) { return run(p, "blockwise", x); }, qkv);
  const auto want = gradients_of([&](const auto& x) { return run(p, "vanilla", x); }, {p.q, p.k, p.v});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-4, 2e-5})) << "gradient " << i;
}

TEST(BlockwiseAttention, UsesMemoryLinearInTheLength) {
  const auto peak = [](int64_t length, const char* mechanism) {
    const auto leaf = [&](int64_t heads) { return at::randn({1, length, heads, 8}).requires_grad_(); };
    const Tensor q = leaf(4), k = leaf(2), v = leaf(2);
    return peak_bytes([&] {
      const Tensor out = attention(q, k, v, {.mechanism = mechanism}).out;
      torch::autograd::grad({out}, {q, k, v}, {at::ones_like(out)});
    });
  };
  const int64_t short_peak = peak(512, "blockwise"), long_peak = peak(2048, "blockwise");
  EXPECT_LT(long_peak, 4.5 * static_cast<double>(short_peak));
  EXPECT_LT(long_peak, peak(2048, "vanilla") / 50);
}

TEST(BlockwiseAttention, DropsByThePositionInTheFullTensor) {
  Problem p{"", 2, 6, 6, 4, 2};
  p.options.dropout_p = 0.5;
  p.options.dropout_key = RandomKey(3);
  p.fill();
  const Tensor whole = run(p, "blockwise", {p.q, p.k, p.v});
  p.options.dropout_region = Region{{2, 4, 6, 6}, {1, 2, 0, 0}};  // the second row's last two heads
  for (const char* mechanism : {"blockwise", "vanilla"}) {
    const Tensor part = run(p, mechanism,
                            {p.q.narrow(0, 1, 1).narrow(2, 2, 2), p.k.narrow(0, 1, 1).narrow(2, 1, 1),
                             p.v.narrow(0, 1, 1).narrow(2, 1, 1)});
    EXPECT_TRUE(is_close(part, whole.narrow(0, 1, 1).narrow(2, 2, 2), {1e-11, 1e-12}));
  }
}

TEST(BlockwiseAttention, NeverReadsKeysBeyondACache) {
  Problem p{"", 1, 1, 8, 2, 1};
  p.options.mask.q_offset = 3;
  p.fill();
  const Tensor want = run(p, "blockwise", {p.q, p.k, p.v});
  p.k.narrow(1, 4, 4).fill_(std::numeric_limits<double>::quiet_NaN());
  p.v.narrow(1, 4, 4).fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(at::equal(run(p, "blockwise", {p.q, p.k, p.v}), want));
}

TEST(Attention, WeightsSumToOneAndGiveTheOutput) {
  Problem p{"", 2, 5, 5};
  p.options.return_weights = true;
  p.options.mask.padding_mask = padding(2, 5, 2, 0);
  p.fill();
  for (const char* mechanism : {"vanilla", "auto"}) {
    p.options.mechanism = mechanism;
    const auto got = attention(p.q, p.k, p.v, p.options);
    ASSERT_EQ(got.weights.sizes(), (std::vector<int64_t>{2, 4, 5, 5}));
    const Tensor sums = got.weights.sum(-1);
    EXPECT_TRUE(is_close(sums[1], at::ones_like(sums[1])));
    EXPECT_TRUE(at::equal(sums[0].narrow(1, 0, 2), at::zeros({4, 2}, at::kDouble)));
    const Tensor out = at::matmul(got.weights, p.v.transpose(1, 2).repeat_interleave(2, 1)).transpose(1, 2);
    EXPECT_TRUE(is_close(got.out, out, {1e-12, 1e-12}));
  }
}

TEST(Attention, AcceptsEmptyBatches) {
  for (const char* mechanism : {"vanilla", "blockwise", "auto"}) {
    const Tensor q = at::zeros({0, 3, 4, 8}), k = at::zeros({0, 3, 2, 8});
    EXPECT_EQ(attention(q, k, k, {.mechanism = mechanism}).out.sizes(), q.sizes()) << mechanism;
  }
}

TEST(AttentionRegistry, AcceptsACustomMechanism) {
  register_attention("mean_of_values", [](const Tensor& q, const Tensor& k, const Tensor& v,
                                          const AttentionOptions& o) {
    EXPECT_TRUE(o.scale.has_value());
    return AttentionOutput{v.mean(1, true).expand({-1, q.size(1), -1, -1}).repeat_interleave(q.size(2) / k.size(2), 2)};
  });
  const Tensor x = at::ones({1, 3, 2, 4});
  EXPECT_TRUE(at::equal(attention(x, x, x, {.mechanism = "mean_of_values"}).out, x));
  EXPECT_THAT(attention_names(), testing::Contains("mean_of_values"));
  EXPECT_THAT([] { register_attention("sdpa", {}); },
              ThrowsMessage<ConfigError>("[register_attention] \"sdpa\" is taken. Choose another name."));
}

TEST(AttentionRegistry, ListsTheKnownNamesAndTheNearest) {
  const Tensor x = at::zeros({1, 2, 2, 8});
  EXPECT_THAT(
      [&] { attention(x, x, x, {.mechanism = "blokwise"}); },
      ThrowsMessage<ConfigError>(testing::AllOf(
          HasSubstr("[attention] unknown mechanism \"blokwise\"; known: auto, blockwise, cudnn, flash, flash_attn2, "),
          HasSubstr("ring, sdpa, vanilla. Did you mean \"blockwise\"?"))));
}

TEST(Attention, SuggestsAlternativesToMissingKernels) {
  const Tensor x = at::zeros({1, 2, 2, 8});
  EXPECT_THAT([&] { attention(x, x, x, {.mechanism = "cudnn"}); },
              ThrowsMessage<NotSupportedError>(
                  "[attention] \"cudnn\" needs a CUDA device; got cpu. Use \"sdpa\" or \"auto\"."));
  EXPECT_THAT([&] { attention(x, x, x, {.mechanism = "sdpa", .softcap = 30.0}); },
              ThrowsMessage<NotSupportedError>(
                  "[attention] \"sdpa\" does not support a soft cap. Use \"auto\", \"blockwise\" or \"vanilla\"."));
  EXPECT_THAT(
      [&] { attention(x, x, x, {.mechanism = "flash", .sinks = at::zeros({2})}); },
      ThrowsMessage<NotSupportedError>(
          "[attention] \"flash\" does not support attention sinks. Use \"auto\", \"blockwise\" or \"vanilla\"."));
  EXPECT_THAT([&] { attention(x, x, x, {.mechanism = "flash", .bias = at::zeros({1, 1, 1, 1}).requires_grad_()}); },
              ThrowsMessage<NotSupportedError>("[attention] \"flash\" does not support a gradient of the bias. Use "
                                               "\"auto\", \"blockwise\", \"sdpa\" or \"vanilla\"."));
  EXPECT_THAT([&] { attention(x, x, x, {.mechanism = "blockwise", .return_weights = true}); },
              ThrowsMessage<NotSupportedError>(
                  "[attention] \"blockwise\" does not return weights. Use \"auto\" or \"vanilla\"."));
  EXPECT_THAT(
      [&] { attention(x, x, x, {.mechanism = "ring", .return_weights = true}); },
      ThrowsMessage<NotSupportedError>("[attention] \"ring\" does not return weights. Use \"auto\" or \"vanilla\"."));
  EXPECT_THAT(
      [&] { attention(x, x, x, {.mechanism = "sdpa", .return_weights = true}); },
      ThrowsMessage<NotSupportedError>("[attention] \"sdpa\" does not return weights. Use \"auto\" or \"vanilla\"."));
}

TEST(Attention, RejectsMismatchedTensors) {
  const Tensor x = at::zeros({1, 2, 4, 8});
  EXPECT_THAT([&] { attention(x, at::zeros({1, 2, 3, 8}), at::zeros({1, 2, 3, 8})); },
              ThrowsMessage<ShapeError>(
                  "[attention] k and v must match q: the same batch, as many keys as values, the head size of q in k, "
                  "and a number of heads that divides q's; got q [1, 2, 4, 8], k [1, 2, 3, 8], "
                  "v [1, 2, 3, 8]."));
  EXPECT_THAT([&] { attention(x, x, x.to(at::kDouble)); },
              ThrowsMessage<ShapeError>(
                  "[attention] q, k and v must have the same dtype; got float32, float32 and float64. Set "
                  "`dtype` to compute in one."));
  EXPECT_THAT([&] { attention(x, x, x, {.sinks = at::zeros({3})}); },
              ThrowsMessage<ShapeError>("[attention] sinks must be [4], one for each head; got [3]."));
  EXPECT_THAT([&] { attention(x, x, x, {.bias = at::zeros({1, 4, 3, 2})}); },
              ThrowsMessage<ShapeError>("[attention] bias must broadcast to [1, 4, 2, 2]; got [1, 4, 3, 2]."));
  EXPECT_THAT([&] { attention(x, x, x, {.dropout_p = 0.1}); },
              ThrowsMessage<ConfigError>("[attention] dropout needs a dropout_key; got none."));
  EXPECT_THAT([&] { attention(x, x, x, {.blocksize_q = 0}); },
              ThrowsMessage<ConfigError>("[attention] blocksize_q and blocksize_k must be positive; got 0 and 512."));
}

}  // namespace
}  // namespace easydel::operations
