// The collectives, between threads or, when mpirun or torchrun has started this program, between processes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/sharding/world/launch.h"
#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

bool among_processes() {
  const auto launch = find_launch([](const char* name) -> const char* { return std::getenv(name); });
  return launch && launch->size > 1;
}

// EASYDEL_TEST_DEVICE=cuda is for processes.
at::TensorOptions options(at::ScalarType dtype) {
  const char* device = std::getenv("EASYDEL_TEST_DEVICE");
  return at::TensorOptions(dtype).device(at::Device(device == nullptr ? "cpu" : device));
}

class Collectives : public testing::TestWithParam<int64_t> {
 protected:
  using Check = void (*)(World&, at::TensorOptions);

  void run(Check check, at::ArrayRef<at::ScalarType> dtypes = {at::kFloat}) {
    for (const at::ScalarType dtype : dtypes) {
      if (among_processes()) {
        check(*World::current(), options(dtype));
      } else {
        run_ranks(GetParam(), [&](World& world) { check(world, options(dtype)); });
      }
    }
  }
};

// 0 means the number of processes.
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         testing::ValuesIn(among_processes() ? std::vector<int64_t>{0}
                                                             : std::vector<int64_t>{1, 2, 3, 8}),
                         testing::PrintToStringParamName());

constexpr at::ScalarType kReducible[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
                                         at::kInt,   at::kShort,  at::kChar,     at::kByte};
constexpr at::ScalarType kMoved[] = {at::kFloat, at::kBFloat16, at::kBool, at::kFloat8_e4m3fn, at::kLong};
constexpr at::ScalarType kFloating[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

TEST_P(Collectives, AllReduceSums) { run(collectives::all_reduce_sums, kReducible); }
TEST_P(Collectives, AllReduceTakesExtremes) { run(collectives::all_reduce_takes_extremes, kReducible); }
TEST_P(Collectives, AllGatherTakesUnevenParts) { run(collectives::all_gather_takes_uneven_parts, kMoved); }
TEST_P(Collectives, ReduceScatterTakesUnevenParts) { run(collectives::reduce_scatter_takes_uneven_parts, kReducible); }
TEST_P(Collectives, SumsHaveTheSameBitsEverywhere) { run(collectives::sums_have_the_same_bits, kFloating); }
TEST_P(Collectives, AllToAllSendsRows) { run(collectives::all_to_all_sends_rows, kMoved); }
TEST_P(Collectives, ShiftGoesRound) { run(collectives::shift_goes_round, kMoved); }
TEST_P(Collectives, BroadcastComesFromTheRoot) { run(collectives::broadcast_comes_from_the_root, kMoved); }
TEST_P(Collectives, StartedOnesOverlap) { run(collectives::started_ones_overlap); }
TEST_P(Collectives, GroupsAreIndependent) { run(collectives::groups_are_independent, {at::kDouble}); }
TEST_P(Collectives, BytesAreCounted) { run(collectives::bytes_are_counted, {at::kFloat, at::kHalf}); }
TEST_P(Collectives, KeepOrderUnderRandomDelays) { run(collectives::order_holds_under_random_delays); }

TEST_P(Collectives, LargeOnesPass) {
  if (std::getenv("EASYDEL_TEST_LARGE") == nullptr) GTEST_SKIP() << "needs 7 GB per rank; EASYDEL_TEST_LARGE=1 runs it";
  run(collectives::large_ones_pass, {at::kByte});
}

}  // namespace
}  // namespace easydel
