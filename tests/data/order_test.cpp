// Permutations, mixtures and shuffles: every order is a function of the seed and the position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "easydel/core/error.h"
#include "easydel/data/order/mixture_order.h"
#include "easydel/data/order/permutation.h"
#include "tests/data/toy_rows.h"
#include "tests/support/draw.h"

namespace easydel::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<int64_t> whole(const Permutation& permutation, int64_t size) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < size; ++i) out.push_back(permutation(i));
  return out;
}

TEST(Permutation, IsABijectionForEverySize) {
  testing_support::Draw draw(1);
  for (int64_t size = 1; size < 300; ++size) {
    auto values = whole(Permutation(size, static_cast<uint64_t>(draw.between(0, 1'000'000))), size);
    std::sort(values.begin(), values.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i) << "of " << size;
  }
  for (const int64_t size : {65'536, 65'537, 100'003}) {
    auto values = whole(Permutation(size, 7), size);
    std::sort(values.begin(), values.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i) << "of " << size;
  }
}

TEST(Permutation, AcceptsLargeSizes) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation permutation(size, 3);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 20'000; ++i) {
    const int64_t value = permutation(size - 1 - i);
    ASSERT_TRUE(value >= 0 && value < size);
    ASSERT_TRUE(seen.insert(value).second);
  }
}

// Each of n! orders of a small set should be as likely as any other: chi-square over many keys.
TEST(Permutation, IsUniform) {
  std::map<std::vector<int64_t>, int> counts;
  constexpr int kKeys = 24'000;
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[whole(Permutation(4, make_key(key, "test", 0, 0)), 4)];
  ASSERT_EQ(counts.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - kKeys / 24.0, 2) / (kKeys / 24.0);
  EXPECT_LT(chi_square, 58.6);  // 23 degrees of freedom, p = 6e-5
}

TEST(MixtureOrder, HasExactSharesInEveryBlock) {
  const MixtureOrder order({.sizes = {1000, 50, 400}, .weights = {0.5, 0.3, 0.2}, .block_size = 100, .seed = 5},
                           {"a", "b", "c"});
  EXPECT_EQ(order.counts(), (std::vector<int64_t>{50, 30, 20}));
  for (int64_t block = 0; block < 30; ++block) {
    std::vector<int64_t> counts(3);
    for (int64_t i = 0; i < 100; ++i) ++counts[order.at(block * 100 + i).dataset];
    EXPECT_EQ(counts, order.counts()) << "block " << block;
  }
}

TEST(MixtureOrder, TakesTheRowsOfADatasetInOrder) {
  const MixtureOrder order({.sizes = {37, 11}, .weights = {2, 1}, .block_size = 9, .seed = 2}, {"a", "b"});
  std::vector<int64_t> next(2);
  const std::vector<int64_t> sizes = {37, 11};
  for (int64_t p = 0; p < 2000; ++p) {
    const auto place = order.at(p);
    ASSERT_EQ(place.epoch * sizes[place.dataset] + place.index, next[place.dataset]++) << "position " << p;
  }
}

TEST(MixtureOrder, AnEpochHasEveryRowAndIsMinimal) {
  testing_support::Draw draw(4);
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<int64_t> sizes = {draw.between(1, 60), draw.between(1, 60), draw.between(1, 60)};
    const bool first = draw.chance(0.5);
    const MixtureOrder order({.sizes = sizes,
                              .weights = {1.0 * draw.between(1, 5), 1.0 * draw.between(1, 5), 1.0 * draw.between(1, 5)},
                              .block_size = draw.between(15, 40),
                              .seed = static_cast<uint64_t>(trial),
                              .stop_at_first = first},
                             {"a", "b", "c"});
    std::vector<int64_t> counts(3);
    int64_t position = 0;
    const auto is_done = [&](std::size_t i) { return counts[i] >= sizes[i]; };
    for (;; ++position) {
      const auto place = order.at(position);
      if (first && is_done(place.dataset)) break;
      if (first && position == order.epoch_size()) break;
      if (!first && is_done(0) && is_done(1) && is_done(2)) break;
      ++counts[place.dataset];
    }
    EXPECT_EQ(position, order.epoch_size()) << "trial " << trial;
  }
}

TEST(MixtureOrder, RejectsInvalidWeights) {
  const auto make = [](std::vector<double> weights, int64_t block = 100) {
    return [=] { MixtureOrder({.sizes = {5, 5}, .weights = weights, .block_size = block}, {"a", "b"}); };
  };
  EXPECT_THAT(make({1, -0.5}), ThrowsMessage<ConfigError>(
                                   "[mixture_weights] a weight must be a non-negative number; got -0.5 for \"b\"."));
  EXPECT_THAT(make({0, 0}),
              ThrowsMessage<ConfigError>(
                  "[mixture_weights] at least one weight must be above 0; got 0 for all of 2 data sets."));
  EXPECT_THAT(make({1, 0.001}),
              ThrowsMessage<ConfigError>("[mixture_block_size] a block of 100 rows has none of \"b\", whose weight is "
                                         "0.001 of 1.001. Use at least 1001."));
  EXPECT_THAT(make({1, std::nan("")}), ThrowsMessage<ConfigError>(HasSubstr("must be a non-negative number; got nan")));
}

std::vector<int64_t> numbers_of(const Dataset& dataset, int64_t from, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t p = from; p < from + count; ++p) out.push_back(dataset.at(p).values.at("n").as_int());
  return out;
}

// A source with a given access cost.
class Costly : public Source {
 public:
  Costly(SourcePtr source, Access access) : source_(std::move(source)), access_(access) {}
  int64_t size() const override { return source_->size(); }
  Json row(int64_t index) const override { return source_->row(index); }
  std::string place(int64_t index) const override { return source_->place(index); }
  Access access() const override { return access_; }

 private:
  SourcePtr source_;
  Access access_;
};

TEST(Shuffle, HasEveryRowOnceAnEpochInAnotherOrderEachTime) {
  for (const Access access : {Access::Random, Access::Grouped, Access::InOrder}) {
    for (const int64_t size : {1, 2, 7, 10, 11, 100, 103}) {
      const auto source = std::make_shared<Costly>(numbered_rows(size), access);
      const auto dataset = make_dataset({source}, {.shuffle_buffer_size = 10, .seed = 9});
      const auto first = numbers_of(*dataset, 0, size), second = numbers_of(*dataset, size, size);
      for (auto epoch : {first, second}) {
        std::sort(epoch.begin(), epoch.end());
        for (int64_t i = 0; i < size; ++i) ASSERT_EQ(epoch[static_cast<std::size_t>(i)], i);
      }
      if (size >= 10) {
        EXPECT_NE(first, second);
        EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
        const auto other = make_dataset({source}, {.shuffle_buffer_size = 10, .seed = 10});
        EXPECT_NE(numbers_of(*other, 0, size), first);
      }
      EXPECT_EQ(numbers_of(*dataset, 0, size), first);
    }
  }
}

TEST(Shuffle, StaysWithinTheWindowWhereRowsComeInOrder) {
  const auto source = std::make_shared<Costly>(numbered_rows(1003), Access::InOrder);
  const auto dataset = make_dataset({source}, {.shuffle_buffer_size = 50});
  const auto numbers = numbers_of(*dataset, 0, 1003);
  for (int64_t p = 0; p < 1003; ++p) EXPECT_EQ(numbers[static_cast<std::size_t>(p)] / 50, p / 50);
}

TEST(Shuffle, MovesWindowsWhereRowsComeInGroups) {
  const auto source = std::make_shared<Costly>(numbered_rows(1003), Access::Grouped);
  const auto numbers = numbers_of(*make_dataset({source}, {.shuffle_buffer_size = 50}), 0, 1003);
  int64_t elsewhere = 0;
  for (int64_t p = 0; p < 1003; p += 50) {
    std::set<int64_t> windows;
    for (int64_t i = p; i < std::min<int64_t>(p + 50, 1003); ++i)
      windows.insert(numbers[static_cast<std::size_t>(i)] / 50);
    ASSERT_EQ(windows.size(), 1U);
    elsewhere += *windows.begin() != p / 50;
  }
  EXPECT_GT(elsewhere, 10);
}

TEST(Dataset, MixesByNameAndRejectsUnknownNames) {
  MixtureOptions options{.informs = {{.name = "code"}, {.name = "text"}},
                         .mixture_block_size = 10,
                         .mixture_weights = {{"code", 0.3}, {"text", 0.7}}};
  const auto dataset = make_dataset({numbered_rows(30, 1), numbered_rows(70, 2)}, options);
  EXPECT_EQ(dataset->epoch_size(), 100);
  EXPECT_EQ(dataset->order().counts(), (std::vector<int64_t>{3, 7}));
  options.mixture_weights = {{"code", 0.3}, {"txt", 0.7}};
  EXPECT_THAT([&] { make_dataset({numbered_rows(3), numbered_rows(3)}, options); },
              ThrowsMessage<ConfigError>("[mixture_weights] must name every data set; \"text\" is missing."));
  options.mixture_weights = {{"code", 0.3}, {"text", 0.7}, {"txt", 1}};
  EXPECT_THAT([&] { make_dataset({numbered_rows(3), numbered_rows(3)}, options); },
              ThrowsMessage<ConfigError>("[mixture_weights] unknown data set \"txt\". Did you mean \"text\"?"));
}

TEST(Dataset, TakesTurnsWithoutBlocks) {
  const auto dataset = make_dataset({numbered_rows(3, 1), numbered_rows(5, 2)},
                                    {.informs = {{.name = "a"}, {.name = "b"}}, .block_mixture = false});
  EXPECT_EQ(dataset->epoch_size(), 6);
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (int64_t p = 0; p < 8; ++p) {
    const Json row = dataset->at(p).values;
    seen.emplace_back(row.at("set").as_int(), row.at("n").as_int());
  }
  EXPECT_EQ(seen,
            (std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {2, 0}, {1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 0}, {2, 0}}));
}

}  // namespace
}  // namespace easydel::data
