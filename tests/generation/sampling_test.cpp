#include "easydel/generation/sampling.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "easydel/core/error.h"

#include "easydel/generation/candidates.h"
#include "easydel/generation/sampling_processors.h"

namespace easydel {
namespace {

at::Tensor some_scores(int64_t rows, int64_t vocab) {
  const at::Tensor scores = at::empty({rows, vocab});
  fill_normal(scores, RandomKey(5), 0.0, 2.0);
  return scores;
}

TEST(UniformStream, DependsOnKeyStreamAndStepAlone) {
  UniformStream batch(RandomKey(1), {0, 7, 2}, at::kCPU), alone(RandomKey(1), {7}, at::kCPU);
  UniformStream other(RandomKey(2), {7}, at::kCPU);
  for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{5}, int64_t{100000}}) {
    EXPECT_EQ(batch.at_step(step)[1].item<double>(), alone.at_step(step)[0].item<double>());
    EXPECT_NE(batch.at_step(step)[0].item<double>(), batch.at_step(step)[1].item<double>());
    EXPECT_NE(other.at_step(step)[0].item<double>(), alone.at_step(step)[0].item<double>());
  }
}

TEST(SampleTokens, ARowDrawsTheSameAloneAndInABatch) {
  const at::Tensor scores = some_scores(6, 300);
  UniformStream all(RandomKey(9), {0, 1, 2, 3, 4, 5}, at::kCPU);
  for (int64_t step = 0; step < 50; ++step) {
    const at::Tensor together = sample_tokens(scores, all.at_step(step));
    for (int64_t row = 0; row < 6; ++row) {
      UniformStream one(RandomKey(9), {row}, at::kCPU);
      EXPECT_EQ(sample_tokens(scores.narrow(0, row, 1), one.at_step(step)).item<int64_t>(),
                together[row].item<int64_t>());
    }
  }
}

TEST(SampleTokens, NeverDrawsAnImpossibleToken) {
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor scores = at::tensor({-inf, 0.0, -inf, 0.0, -inf}).to(at::kFloat).unsqueeze(0);
  for (const double u : {0.0, 0.25, 0.4999999999, 0.5, 0.75, 1 - 0x1p-48}) {
    const int64_t token = sample_tokens(scores, at::tensor({u})).item<int64_t>();
    EXPECT_EQ(token, u < 0.5 ? 1 : 3) << u;
  }
  EXPECT_EQ(sample_tokens(at::full({1, 4}, -inf), at::tensor({0.3})).item<int64_t>(), -1);
  EXPECT_EQ(sample_tokens(at::full({1, 4}, std::nan("")), at::tensor({0.3})).item<int64_t>(), -1);
}

// The tail of the chi-square distribution by Wilson and Hilferty's approximation: a standard normal deviate.
double chi_square_deviate(const at::Tensor& counts, const at::Tensor& expected) {
  const at::Tensor used = expected.gt(0);
  const double chi = ((counts - expected).square() / expected).masked_select(used).sum().item<double>();
  const double freedom = used.sum().item<double>() - 1;
  const double a = 2.0 / (9.0 * freedom);
  return (std::cbrt(chi / freedom) - (1 - a)) / std::sqrt(a);
}

const std::vector<GenerationConfig> kSettings{
    {}, {.temperature = 0.7}, {.temperature = 1.8}, {.top_k = 5}, {.top_p = 0.8}, {.min_p = 0.1}, {.typical_p = 0.7}};

class DrawsFollow : public testing::TestWithParam<std::size_t> {};

TEST_P(DrawsFollow, TheDistribution) {
  constexpr int64_t kVocab = 24, kRows = 400, kSteps = 100;
  GenerationConfig config = kSettings[GetParam()];
  config.do_sample = true;
  if (!config.top_k) config.top_k = 0;
  LogitsProcessorList processors = make_logits_processors(config.with_defaults(), 1, kVocab);
  const at::Tensor scores = processors(at::zeros({1, 1}, at::kLong), some_scores(1, kVocab) * 0.6);
  const at::Tensor probabilities = scores[0].to(at::kDouble).softmax(-1);
  ASSERT_GT(probabilities.gt(0).sum().item<int64_t>(), 1);
  // Every possible token is expected often enough for the statistic.
  ASSERT_GT((probabilities * kRows * kSteps).masked_select(probabilities.gt(0)).min().item<double>(), 5);

  std::vector<int64_t> streams(kRows);
  for (int64_t row = 0; row < kRows; ++row) streams[static_cast<std::size_t>(row)] = row;
  UniformStream uniform(RandomKey(11), streams, at::kCPU);
  at::Tensor counts = at::zeros({kVocab}, at::kDouble);
  for (int64_t step = 0; step < kSteps; ++step) {
    counts += sample_tokens(scores.expand({kRows, kVocab}), uniform.at_step(step)).bincount({}, kVocab);
  }
  EXPECT_EQ(counts.masked_select(probabilities.eq(0)).sum().item<double>(), 0);
  EXPECT_LT(std::abs(chi_square_deviate(counts, probabilities * kRows * kSteps)), 3.5);
  // The statistic tells a wrong distribution apart.
  const at::Tensor flat = (probabilities.gt(0).to(at::kDouble) + 3 * probabilities).softmax(-1) * probabilities.gt(0);
  EXPECT_GT(chi_square_deviate(counts, flat / flat.sum() * kRows * kSteps), 6);
}

INSTANTIATE_TEST_SUITE_P(EachSetting, DrawsFollow, testing::Range<std::size_t>(0, kSettings.size()));

TEST(Candidates, DrawWhatAllScoresDraw) {
  constexpr int64_t kVocab = 6000, kRows = 40;
  std::vector<int64_t> streams(kRows);
  for (int64_t row = 0; row < kRows; ++row) streams[static_cast<std::size_t>(row)] = row;
  UniformStream uniform(RandomKey(1), streams, at::kCPU);
  const at::Tensor ids = at::zeros({kRows, 1}, at::kLong);
  int64_t step = 0;
  for (const at::ScalarType rounded : {at::kFloat, at::kBFloat16}) {  // the second makes many equal scores
    const at::Tensor scores = some_scores(kRows, kVocab).to(rounded).to(at::kFloat);
    for (GenerationConfig config :
         {GenerationConfig{}, GenerationConfig{.temperature = 0.7, .top_p = 0.9},
          GenerationConfig{.top_k = 3, .min_p = 0.1}, GenerationConfig{.top_k = 200, .typical_p = 0.8},
          GenerationConfig{.top_k = 0, .top_p = 0.3}, GenerationConfig{.top_k = 5000}}) {
      config.do_sample = true;
      config = config.with_defaults();
      SCOPED_TRACE(concat(rounded, " ", config.to_dict().dump()));
      LogitsProcessorList warpers = make_warpers(config);
      const at::Tensor all = warpers(ids, scores);
      const Candidates candidates = find_candidates(config, warpers, ids, scores);
      EXPECT_EQ(candidates.tokens.defined(), *config.top_k > 0 && *config.top_k < 1000);
      const at::Tensor again = candidates.all_scores(kVocab), numbers = uniform.at_step(step++);
      // Which of equal scores top_p takes is left to the sort.
      EXPECT_TRUE(at::equal(std::get<0>(again.sort(-1)), std::get<0>(all.sort(-1))));
      if (rounded == at::kBFloat16) continue;
      EXPECT_TRUE(at::equal(again, all));
      EXPECT_TRUE(at::equal(candidates.sample(numbers), sample_tokens(all, numbers)));
    }
  }
}

TEST(TopP, KeepsTheSameOfALargeVocabularyWithoutSortingIt) {
  // Of few tokens, and the same followed by many that are impossible.
  const at::Tensor few = some_scores(5, 900);
  const at::Tensor many = at::constant_pad_nd(few, {0, 9000}, -std::numeric_limits<double>::infinity());
  for (const double top_p : {0.2, 0.5, 0.9, 0.999}) {
    TopPLogitsWarper warper(top_p);
    const at::Tensor expected = warper({}, few);
    EXPECT_TRUE(at::equal(warper({}, many).narrow(1, 0, 900), expected)) << top_p;
    EXPECT_TRUE(warper({}, many).narrow(1, 900, 9000).isinf().all().item<bool>());
    EXPECT_GT(expected.isfinite().sum().item<int64_t>(), 5);
  }
}

TEST(SampleWithoutReplacement, FollowsSuccessiveDraws) {
  // P(first = i, second = j) = p_i p_j / (1 - p_i)
  constexpr int64_t kVocab = 5, kRows = 200, kSteps = 200;
  const at::Tensor scores = some_scores(1, kVocab) * 0.5;
  const at::Tensor p = scores[0].to(at::kDouble).softmax(-1);
  const at::Tensor pairs = (p.unsqueeze(1) * p.unsqueeze(0) / (1 - p).unsqueeze(1)).fill_diagonal_(0);
  std::vector<int64_t> streams(kRows);
  for (int64_t row = 0; row < kRows; ++row) streams[static_cast<std::size_t>(row)] = row;
  at::Tensor counts = at::zeros({kVocab * kVocab}, at::kDouble);
  for (int64_t step = 0; step < kSteps; ++step) {
    const at::Tensor drawn = sample_without_replacement(scores.expand({kRows, kVocab}), 2, RandomKey(3), streams, step);
    counts += (drawn.select(1, 0) * kVocab + drawn.select(1, 1)).bincount({}, kVocab * kVocab);
  }
  const at::Tensor expected = pairs.flatten() * kRows * kSteps;
  ASSERT_GT(expected.masked_select(expected.gt(0)).min().item<double>(), 5);
  EXPECT_EQ(counts.masked_select(expected.eq(0)).sum().item<double>(), 0);
  EXPECT_LT(std::abs(chi_square_deviate(counts, expected)), 3.5);
}

}  // namespace
}  // namespace easydel
