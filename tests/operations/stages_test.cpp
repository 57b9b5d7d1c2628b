// Stages of work: their order, and what happens when a piece fails.
#include "easydel/operations/threading/stages.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

namespace easydel::operations {
namespace {

TEST(Stages, BeginWhenThoseBeforeThemHaveEnded) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    constexpr int64_t kRounds = 50, kRows = 40;
    std::vector<std::atomic<int64_t>> done(kRounds);
    std::atomic<int64_t> early{0};
    Stages stages;
    for (int64_t round = 0; round < kRounds; ++round) {
      const auto work = [&, round](int64_t, int64_t count) {
        if (round >= 2 && done[static_cast<std::size_t>(round - 2)] != kRows) ++early;
        done[static_cast<std::size_t>(round)] += count;
      };
      const auto before = static_cast<std::size_t>(round - 2);
      stages.add(row_pieces(kRows, 7, work), round < 2 ? std::vector<std::size_t>() : std::vector<std::size_t>{before});
    }
    stages.run();
    EXPECT_EQ(early, 0) << threads << " threads";
    for (const auto& rows : done) EXPECT_EQ(rows, kRows);
  }
  at::set_num_threads(1);
}

TEST(Stages, PassOnWhatAPieceThrowsOnceAllHaveEnded) {
  at::set_num_threads(2);
  std::atomic<int> ended{0};
  Stages stages;
  const auto first = stages.add({[] { throw std::runtime_error("a piece failed"); }, [&] { ++ended; }});
  stages.add({[&] { ++ended; }}, {first});
  EXPECT_THAT([&] { stages.run(); }, testing::ThrowsMessage<std::runtime_error>("a piece failed"));
  EXPECT_EQ(ended, 2);
  at::set_num_threads(1);
}

}  // namespace
}  // namespace easydel::operations
