// NCCL itself, with the one rank that one GPU allows.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "easydel/sharding/world/process_world.h"
#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_nccl()) GTEST_SKIP() << "this build has no NCCL";
    if (!at::hasCUDA() || gpu_count() == 0) GTEST_SKIP() << "no GPU";
  }

  // A world of one rank, which sends to itself.
  static World& world() {
    static const std::shared_ptr<World> world = make_nccl_world(
        {.launcher = "torchrun", .address = "127.0.0.1", .port = 0, .store_prefix = "test"}, {.debug = true});
    return *world;
  }

  void run(void (*check)(World&, at::TensorOptions), at::ArrayRef<at::ScalarType> dtypes = {at::kFloat}) {
    for (const at::ScalarType dtype : dtypes) {
      for (const at::Device device : {at::Device(at::kCUDA, 0), at::Device(at::kCPU)}) {
        check(world(), at::TensorOptions(dtype).device(device));
      }
    }
  }
};

constexpr at::ScalarType kReducible[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
                                         at::kInt,   at::kShort,  at::kChar,     at::kByte};
constexpr at::ScalarType kMoved[] = {at::kFloat, at::kBFloat16, at::kBool, at::kFloat8_e4m3fn, at::kLong};

TEST_F(Nccl, IsTheBackend) {
  EXPECT_EQ(world().backend_name(), "nccl");
  EXPECT_EQ(world().size(), 1);
}
TEST_F(Nccl, AllReduceSums) { run(collectives::all_reduce_sums, kReducible); }
TEST_F(Nccl, AllReduceTakesExtremes) { run(collectives::all_reduce_takes_extremes, kReducible); }
TEST_F(Nccl, AllGatherTakesUnevenParts) { run(collectives::all_gather_takes_uneven_parts, kMoved); }
TEST_F(Nccl, ReduceScatterTakesUnevenParts) { run(collectives::reduce_scatter_takes_uneven_parts, kReducible); }
TEST_F(Nccl, RoundsSumsOnce) { run(collectives::sums_have_the_same_bits, {at::kBFloat16, at::kHalf}); }
TEST_F(Nccl, AllToAllSendsRows) { run(collectives::all_to_all_sends_rows, kMoved); }
TEST_F(Nccl, ShiftGoesRound) { run(collectives::shift_goes_round, kMoved); }
TEST_F(Nccl, BroadcastComesFromTheRoot) { run(collectives::broadcast_comes_from_the_root, kMoved); }
TEST_F(Nccl, StartedOnesOverlap) { run(collectives::started_ones_overlap); }
TEST_F(Nccl, GroupsAreIndependent) { run(collectives::groups_are_independent, {at::kDouble}); }
TEST_F(Nccl, BytesAreCounted) { run(collectives::bytes_are_counted); }

}  // namespace
}  // namespace easydel
