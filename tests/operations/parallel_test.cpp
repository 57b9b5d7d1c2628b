// Work sharing: everything is done once, stages keep their order, and what a piece throws arrives.
#include "easydel/operations/threading/parallel.h"

#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

namespace easydel::operations {
namespace {

bool all_once(const std::vector<std::atomic<int>>& counts) {
  return std::all_of(counts.begin(), counts.end(), [](const std::atomic<int>& count) { return count == 1; });
}

TEST(Parallel, EveryRowUnitAndPieceIsTakenOnce) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const int64_t count : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> rows(static_cast<std::size_t>(count)), units(rows.size()), pieces(rows.size());
      for_rows(count, 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++rows[static_cast<std::size_t>(i)];
      });
      for_units(units.size(), [&](std::size_t i) { ++units[i]; });
      StealingRange range(count, threads);
      SpinBarrier barrier(threads);
      std::vector<std::thread> workers;
      for (int64_t thread = 0; thread < threads; ++thread) {
        workers.emplace_back([&, thread] {
          range.take(thread, [&](int64_t i) { ++pieces[static_cast<std::size_t>(i)]; });
          barrier.wait();
          EXPECT_TRUE(all_once(pieces));
        });
      }
      for (std::thread& worker : workers) worker.join();
      EXPECT_TRUE(all_once(rows));
      EXPECT_TRUE(all_once(units));
    }
  }
  at::set_num_threads(1);
}

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
