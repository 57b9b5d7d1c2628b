// The communication, computation and memory of ring attention.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <map>

#include "easydel/layers/attention/ring_attention.h"
#include "tests/layers/ring_problems.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using at::Tensor;
using ring::everyone;

// Collectives of one rank among four, forward and backward.
std::map<std::string, int64_t> calls_on_four(const MaskInfo& mask) {
  std::map<std::string, int64_t> calls;
  run_ranks(4, [&](World& world) {
    const auto group = everyone(world);
    const Tensor x = at::randn({1, 3, 2, 4}, at::kDouble).requires_grad_();
    world.stats().reset();
    ring_attention(x, x, x, {.mask = mask}, *group).sum().backward();
    if (world.rank() != 2) return;
    for (const auto& [key, entry] : world.stats().entries) calls[key.second] = entry.calls;
  });
  return calls;
}

TEST(RingAttentionCost, StopsTheRingWhereTheWindowEnds) {
  using Calls = std::map<std::string, int64_t>;
  // Keys and values 3 times in forward and in backward, gradients 3 times and back to their owner.
  EXPECT_EQ(calls_on_four({}), (Calls{{"shift", 9}, {"all_to_all", 1}}));
  EXPECT_EQ(calls_on_four({.causal = false}), (Calls{{"shift", 9}, {"all_to_all", 1}}));
  EXPECT_EQ(calls_on_four({.sliding_window = 5}), (Calls{{"shift", 6}, {"all_to_all", 1}}));
  EXPECT_EQ(calls_on_four({.sliding_window = 4}), (Calls{{"shift", 3}, {"all_to_all", 1}}));
  EXPECT_EQ(calls_on_four({.sliding_window = 1}), Calls{});
}

// The number of torch allocations of each of four ranks in forward.
std::vector<int64_t> allocations_on_four(const MaskInfo& mask) {
  struct Meter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override { count += size > 0; }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t count = 0;
  };
  std::vector<int64_t> counts(4);
  run_ranks(4, [&](World& world) {
    at::set_num_threads(1);
    const auto group = everyone(world);
    const Tensor x = at::randn({1, 4, 2, 4});
    auto meter = std::make_shared<Meter>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    ring_attention(x, x, x, {.mask = mask}, *group);
    counts[world.rank()] = meter->count;
  });
  return counts;
}

TEST(RingAttentionCost, SkipsHiddenBlocks) {
  using testing::Each;
  const auto all = allocations_on_four({.causal = false}), causal = allocations_on_four({});
  EXPECT_THAT(all, Each(all[0]));
  for (int rank = 0; rank < 3; ++rank) EXPECT_LT(causal[rank], causal[rank + 1]);
  EXPECT_EQ(causal[3], all[3]);
  const auto window = allocations_on_four({.sliding_window = 3});
  EXPECT_LT(window[0], window[1]);
  EXPECT_EQ(window[1], window[3]);
  EXPECT_LT(window[3], causal[3]);
}

TEST(RingAttentionCost, KeepsOnlyTheOutputAndItsLogSumExp) {
  run_ranks(4, [](World& world) {
    const auto group = everyone(world);
    const auto leaf = [](int64_t heads, int64_t size) { return at::randn({2, 16, heads, size}).requires_grad_(); };
    const Tensor q = leaf(4, 8), k = leaf(2, 8), v = leaf(2, 6);
    Tensor out;
    const int64_t held = held_bytes([&] { out = ring_attention(q, k, v, {}, *group); });
    const int64_t lse_bytes = 2 * 4 * 16 * 4;
    EXPECT_EQ(held, static_cast<int64_t>(out.nbytes()) + lse_bytes);
    out.sum().backward();
  });
}

// The peak memory of one of `ranks` ranks beyond its inputs, forward and backward, with 64 tokens each.
int64_t peak_among(int64_t ranks) {
  int64_t peak = 0;
  run_ranks(ranks, [&](World& world) {
    at::set_num_threads(1);
    const auto group = everyone(world);
    const auto leaf = [] { return at::randn({1, 64, 2, 32}).requires_grad_(); };
    const Tensor q = leaf(), k = leaf(), v = leaf();
    const int64_t bytes =
        peak_bytes([&] { ring_attention(q, k, v, {.mask = {.causal = false}}, *group).sum().backward(); });
    if (world.rank() == 1) peak = bytes;
  });
  return peak;
}

TEST(RingAttentionCost, MemoryOfAMemberDoesNotGrowWithTheSequence) { EXPECT_EQ(peak_among(8), peak_among(3)); }

}  // namespace
}  // namespace easydel
