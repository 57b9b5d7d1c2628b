// A cache of int8 codes is equivalent to attention over quantized and dequantized keys and values.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/caching/transformer_cache.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/quantized/coded_rows.h"
#include "tests/support/one_answer.h"

namespace easydel {
namespace {

using at::Tensor;

constexpr int64_t kHeads = 4, kKvHeads = 2, kHead = 24, kTokens = 21;

struct Case {
  Tensor q, k, v;  // [B, T, heads, H]
};

Case draw(int64_t batch) {
  at::manual_seed(11);
  const auto options = at::TensorOptions(at::kFloat).device(testing_support::device());
  return {at::randn({batch, kTokens, kHeads, kHead}, options), at::randn({batch, kTokens, kKvHeads, kHead}, options),
          at::randn({batch, kTokens, kKvHeads, kHead}, options)};
}

Tensor through_codes(const Tensor& x) { return operations::decode_rows(operations::encode_rows(x), x.scalar_type()); }

operations::AttentionOptions causal(int64_t window) {
  operations::AttentionOptions options;
  options.mask.causal = true;
  options.mask.sliding_window = window;
  return options;
}

Tensor expected(const Case& c, int64_t window) {
  return operations::attention(c.q, through_codes(c.k), through_codes(c.v), causal(window)).out;
}

TEST(CodedRows, AreOffByAtMostA254thOfTheLargestElement) {
  at::manual_seed(3);
  const auto options = at::TensorOptions(at::kFloat).device(testing_support::device());
  const Tensor x = at::randn({5, 7, 33}, options) * at::logspace(-6, 6, 7, 10, options).view({7, 1});
  const Tensor off = (through_codes(x) - x).abs();
  const Tensor bound = x.abs().amax(-1, true) * (1.0 / 254 * 1.0001);
  EXPECT_TRUE(off.le(bound).all().item<bool>()) << (off / bound).max();
  EXPECT_GT((off / bound).max().item<double>(), 0.9) << "the bound is met";
  EXPECT_TRUE(at::equal(through_codes(at::zeros({2, 8}, options)), at::zeros({2, 8}, options)));
}

TEST(CodedRows, NumbersBeyondAnEightBitFloatBecomeItsLargest) {
  const auto options = at::TensorOptions(at::kFloat).device(testing_support::device());
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = at::tensor({1.0, 1e5, -500.0, infinity, 448.0}, options);
  const auto stored = [&](at::ScalarType type) { return operations::to_stored(x, type).to(at::kFloat); };
  EXPECT_TRUE(at::equal(stored(at::kFloat8_e4m3fn), at::tensor({1.0, 448.0, -448.0, 448.0, 448.0}, options)));
  EXPECT_TRUE(at::equal(stored(at::kFloat8_e5m2), at::tensor({1.0, 57344.0, -512.0, 57344.0, 448.0}, options)));
  EXPECT_TRUE(operations::to_stored(x * std::nan(""), at::kFloat8_e4m3fn).to(at::kFloat).isnan().all().item<bool>());
}

// Steps that read their slot from the device, as captured ones do.
TEST(StaticSteps, GiveWhatOtherStepsGive) {
  const auto options = at::TensorOptions(at::kDouble).device(testing_support::device());
  for (const double softcap : {0.0, 2.0}) {
    for (const int64_t window : {0, 6}) {
      for (const bool has_sinks : {false, true}) {
        Case c = draw(3);
        for (Tensor* x : {&c.q, &c.k, &c.v}) *x = x->to(at::kDouble);
        operations::AttentionOptions attention = causal(window);
        attention.softcap = softcap;
        if (has_sinks) attention.sinks = at::randn({kHeads}, options);
        TransformerMetadata metadata;
        metadata.batch_size = 3;
        metadata.max_length = kTokens;
        metadata.layers = {{kKvHeads, kHead, window}};
        metadata.dtype = float64;
        metadata.device = testing_support::device();
        const auto run = [&](bool is_static) {
          TransformerCache cache(metadata);
          std::vector<Tensor> outs;
          const auto step = [&](int64_t at, int64_t tokens) {
            cache.begin(3, tokens, nullptr);
            const auto own = [&](const Tensor& x) { return x.narrow(1, at, tokens); };
            outs.push_back(cache.attend(0, own(c.q), own(c.k), own(c.v), attention).out);
            cache.end();
          };
          step(0, 9);
          if (is_static) cache.begin_static(kTokens);
          for (int64_t at = 9; at < kTokens; ++at) step(at, 1);
          return at::cat(outs, 1);
        };
        EXPECT_TRUE(at::allclose(run(true), run(false), 1e-12, 1e-12))
            << "soft cap " << softcap << ", window " << window << ", sinks " << has_sinks;
      }
    }
  }
}

TEST(CodedCache, EqualsAttentionOverDequantizedKeysInChunksOfAnySize) {
  for (const int64_t window : {0, 6}) {
    for (const std::vector<int64_t>& chunks : {std::vector<int64_t>{kTokens}, {9, 1, 1, 10}, {1, 1, 1, 18}}) {
      const Case c = draw(3);
      TransformerMetadata metadata;
      metadata.batch_size = 3;
      metadata.max_length = kTokens;
      metadata.layers = {{kKvHeads, kHead, window}};
      metadata.dtype = int8;
      metadata.device = testing_support::device();
      TransformerCache cache(metadata);
      std::vector<Tensor> got;
      int64_t at = 0;
      for (const int64_t chunk : chunks) {
        cache.begin(3, chunk, nullptr);
        got.push_back(
            cache
                .attend(0, c.q.narrow(1, at, chunk), c.k.narrow(1, at, chunk), c.v.narrow(1, at, chunk), causal(window))
                .out);
        cache.end();
        at += chunk;
      }
      const Tensor want = expected(c, window), off = (at::cat(got, 1) - want).abs();
      EXPECT_LT(off.max().item<double>(), 2e-6) << "window " << window << ", first chunk " << chunks[0];
    }
  }
}

TEST(CodedCache, TakesAFractionOfTheMemory) {
  TransformerMetadata metadata;
  metadata.batch_size = 2;
  metadata.max_length = 100;
  metadata.layers = {{kKvHeads, 64, 0}};
  const double floats = metadata.bytes();
  metadata.dtype = int8;
  EXPECT_EQ(metadata.bytes(), 2.0 * 2 * kKvHeads * 100 * (64 + 4));
  EXPECT_LT(metadata.bytes(), 0.27 * floats);
}

TEST(CodedCache, InPagesGivesTheSame) {
  const Case c = draw(1);
  RaggedPagesMetadata metadata;
  metadata.page_size = 4;
  metadata.num_pages = 8;
  metadata.max_model_length = 32;
  metadata.layers = {{kKvHeads, kHead, 0}};
  metadata.dtype = int8;
  metadata.device = testing_support::device();
  RaggedPagesCache cache(metadata);
  const int64_t sequence = cache.add_sequence();
  std::vector<Tensor> got;
  int64_t at = 0;
  for (const int64_t chunk : {9, 1, 1, 10}) {
    RaggedBatch batch;
    batch.parts = {{sequence, chunk}};
    cache.begin(1, chunk, &batch);
    got.push_back(
        cache.attend(0, c.q.narrow(1, at, chunk), c.k.narrow(1, at, chunk), c.v.narrow(1, at, chunk), causal(0)).out);
    cache.end();
    at += chunk;
  }
  EXPECT_LT((at::cat(got, 1) - expected(c, 0)).abs().max().item<double>(), 2e-6);
}

}  // namespace
}  // namespace easydel
