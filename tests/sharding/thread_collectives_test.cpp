#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

class ThreadCollectives : public testing::TestWithParam<int64_t> {
 protected:
  void run(const std::function<void(World&)>& body) { run_ranks(GetParam(), body); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, ThreadCollectives, testing::Values(1, 2, 3, 8));

constexpr at::ScalarType kReducible[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
                                         at::kInt,   at::kShort,  at::kChar,     at::kByte};

TEST_P(ThreadCollectives, AllReduceSums) {
  for (const auto dtype : kReducible) run([&](World& world) { collectives::all_reduce_sums(world, dtype); });
}
TEST_P(ThreadCollectives, AllReduceTakesExtremes) {
  for (const auto dtype : kReducible) run([&](World& world) { collectives::all_reduce_takes_extremes(world, dtype); });
}
TEST_P(ThreadCollectives, AllGatherTakesUnevenParts) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kBool, at::kFloat8_e4m3fn, at::kLong}) {
    run([&](World& world) { collectives::all_gather_takes_uneven_parts(world, dtype); });
  }
}
TEST_P(ThreadCollectives, ReduceScatterTakesUnevenParts) {
  for (const auto dtype : kReducible) {
    run([&](World& world) { collectives::reduce_scatter_takes_uneven_parts(world, dtype); });
  }
}
TEST_P(ThreadCollectives, AllToAllSendsRows) {
  run([](World& world) { collectives::all_to_all_sends_rows(world, at::kFloat); });
}
TEST_P(ThreadCollectives, ShiftGoesRound) {
  run([](World& world) { collectives::shift_goes_round(world, at::kFloat); });
}
TEST_P(ThreadCollectives, BroadcastComesFromTheRoot) {
  run([](World& world) { collectives::broadcast_comes_from_the_root(world, at::kHalf); });
}
TEST_P(ThreadCollectives, StartedOnesOverlap) {
  run([](World& world) { collectives::started_ones_overlap(world, at::kFloat); });
}
TEST_P(ThreadCollectives, GroupsAreIndependent) {
  run([](World& world) { collectives::groups_are_independent(world, at::kDouble); });
}
TEST_P(ThreadCollectives, BytesAreCounted) {
  run([](World& world) { collectives::bytes_are_counted(world, at::kFloat); });
}

TEST_P(ThreadCollectives, SumsHaveTheSameBitsEverywhere) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    run([&](World& world) { collectives::sums_have_the_same_bits(world, dtype); });
  }
}

// Hundreds of collectives of all sizes between ranks that come at random times.
TEST_P(ThreadCollectives, KeepOrderUnderRandomDelays) {
  run([](World& world) {
    const auto group = collectives::everyone(world);
    uint64_t state = 99 + world.rank();
    for (int i = 0; i < 300; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if ((state >> 60) == 0) std::this_thread::sleep_for(std::chrono::microseconds(state >> 56));
      const int64_t count = i % 10 == 0 ? 200000 : 5 + i;
      const at::Tensor t = at::full({count}, static_cast<double>(world.rank() + i), at::kDouble);
      group->all_reduce(t);
      const double sum = static_cast<double>(world.size() * (world.size() - 1) / 2 + i * world.size());
      ASSERT_EQ(t[count - 1].item<double>(), sum) << i;
      ASSERT_EQ(t[0].item<double>(), sum) << i;
    }
  });
}

}  // namespace
}  // namespace easydel
