// Memory that ranks write and read around collectives, in loops that the thread sanitizer can see, unlike torch's own
// operations. A result must be complete when a collective returns, and its inputs may be changed then.
#include <gtest/gtest.h>

#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

void fill(const at::Tensor& tensor, float value) {
  float* const data = tensor.mutable_data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) data[i] = value;
}

// The number of elements that differ.
int64_t others_than(const at::Tensor& tensor, float value) {
  const float* const data = tensor.const_data_ptr<float>();
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) count += data[i] != value;
  return count;
}

class ThreadMemory : public testing::TestWithParam<int64_t> {
};  // elements: small enough for one rank, or shared by all
INSTANTIATE_TEST_SUITE_P(Elements, ThreadMemory, testing::Values(50, 100003), testing::PrintToStringParamName());

constexpr int64_t kRanks = 4;
constexpr int kRounds = 25;

TEST_P(ThreadMemory, IsOrderedByAllReduceAndBroadcast) {
  run_ranks(kRanks, [count = GetParam()](World& world) {
    const auto group = collectives::everyone(world);
    const at::Tensor t = at::empty({count});
    for (int round = 0; round < kRounds; ++round) {
      fill(t, static_cast<float>(world.rank() + round));
      group->all_reduce(t);
      EXPECT_EQ(others_than(t, static_cast<float>(6 + kRanks * round)), 0);
      fill(t, static_cast<float>(100 * world.rank() + round));
      group->broadcast(t, round % kRanks);
      EXPECT_EQ(others_than(t, static_cast<float>(100 * (round % kRanks) + round)), 0);
    }
  });
}

TEST_P(ThreadMemory, IsOrderedByGatherAndScatter) {
  run_ranks(kRanks, [count = GetParam()](World& world) {
    const auto group = collectives::everyone(world);
    const at::Tensor t = at::empty({count});
    const std::vector<int64_t> counts(kRanks, count);
    const std::vector<at::Tensor> parts(kRanks, t);
    for (int round = 0; round < kRounds; ++round) {
      fill(t, static_cast<float>(world.rank() + round));
      const auto all = group->all_gather(t, counts);
      fill(t, static_cast<float>(world.rank() * 2));
      for (int64_t r = 0; r < kRanks; ++r) EXPECT_EQ(others_than(all[r], static_cast<float>(r + round)), 0);
      const at::Tensor sum = group->reduce_scatter(parts);
      fill(t, -1);
      EXPECT_EQ(others_than(sum, 12), 0);
    }
  });
}

TEST_P(ThreadMemory, IsOrderedByWhatWasStarted) {
  run_ranks(kRanks, [count = GetParam()](World& world) {
    const auto group = collectives::everyone(world);
    const int64_t before = (world.rank() + kRanks - 1) % kRanks;
    const at::Tensor a = at::empty({count}), b = at::empty({count});
    const std::vector<int64_t> counts(kRanks, count);
    for (int round = 0; round < kRounds; ++round) {
      fill(a, static_cast<float>(world.rank() + round));
      fill(b, static_cast<float>(world.rank() - round));
      std::vector<at::Tensor> gathered;
      at::Tensor shifted;
      const auto gather = group->start_all_gather(a, counts, gathered);
      const auto shift = group->start_shift(b, shifted);
      shift->wait();
      fill(b, 7);
      EXPECT_EQ(others_than(shifted, static_cast<float>(before - round)), 0);
      gather->wait();
      fill(a, 7);
      for (int64_t r = 0; r < kRanks; ++r) EXPECT_EQ(others_than(gathered[r], static_cast<float>(r + round)), 0);
    }
  });
}

}  // namespace
}  // namespace easydel
