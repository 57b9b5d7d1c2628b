// The adapter between a Group and NCCL, here with threads in place of NCCL.
#include "easydel/sharding/world/nccl_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "easydel/core/error.h"
#include "easydel/sharding/world/thread_backend.h"
#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Shared {
  explicit Shared(int64_t size) : state(size, WorldOptions()) {}
  ThreadWorldState state;
  c10::intrusive_ptr<c10d::HashStore> store = c10::make_intrusive<c10d::HashStore>();
  bool debug = false;
};

class WrappedWorld : public World {
 public:
  WrappedWorld(Shared& shared, int64_t rank)
      : shared_(shared),
        rank_(rank),
        monitor_(std::make_shared<StoreMonitor>(shared.store, rank, std::chrono::minutes(1),
                                                [](const std::string& message) { ADD_FAILURE() << message; })) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return shared_.state.size(); }
  std::string backend_name() const override { return "nccl"; }
  std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) override {
    std::shared_ptr<Group>& group = groups_[name];
    if (group) return group;
    auto watched = std::make_shared<WatchedGroup>();
    watched->name = name;
    watched->ranks.assign(ranks.begin(), ranks.end());
    const int64_t member = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    auto inner = c10::make_intrusive<ThreadBackend>(shared_.state.group(name, ranks), member);
    NcclBackend::StorePtr debug;
    if (shared_.debug) debug = shared_.store;
    auto backend = c10::make_intrusive<NcclBackend>(inner, at::Device(at::kCPU), watched, monitor_, debug);
    group = std::make_shared<Group>(name, backend, stats_);
    return group;
  }

 private:
  Shared& shared_;
  const int64_t rank_;
  std::shared_ptr<StoreMonitor> monitor_;
  std::map<std::string, std::shared_ptr<Group>> groups_;
};

void run_wrapped(int64_t size, bool debug, const std::function<void(World&)>& body) {
  Shared shared(size);
  shared.debug = debug;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      WrappedWorld world(shared, rank);
      body(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class NcclBackendTest : public testing::TestWithParam<int64_t> {
 protected:
  void run(void (*check)(World&, at::TensorOptions), at::ArrayRef<at::ScalarType> dtypes = {at::kFloat}) {
    for (const at::ScalarType dtype : dtypes) {
      for (const bool debug : {false, true}) {
        run_wrapped(GetParam(), debug, [&](World& world) { check(world, dtype); });
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclBackendTest, testing::Values(1, 2, 3), testing::PrintToStringParamName());

constexpr at::ScalarType kNcclReducible[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kShort};
constexpr at::ScalarType kNcclMoved[] = {at::kFloat, at::kBFloat16, at::kBool, at::kFloat8_e4m3fn, at::kLong};

TEST_P(NcclBackendTest, AllReduceSums) { run(collectives::all_reduce_sums, kNcclReducible); }
TEST_P(NcclBackendTest, AllReduceTakesExtremes) { run(collectives::all_reduce_takes_extremes, kNcclReducible); }
TEST_P(NcclBackendTest, AllGatherTakesUnevenParts) { run(collectives::all_gather_takes_uneven_parts, kNcclMoved); }
TEST_P(NcclBackendTest, ReduceScatter) { run(collectives::reduce_scatter_takes_uneven_parts, kNcclReducible); }
TEST_P(NcclBackendTest, RoundsSumsOnce) { run(collectives::sums_have_the_same_bits, {at::kBFloat16, at::kHalf}); }
TEST_P(NcclBackendTest, AllToAllSendsRows) { run(collectives::all_to_all_sends_rows, kNcclMoved); }
TEST_P(NcclBackendTest, ShiftGoesRound) { run(collectives::shift_goes_round, kNcclMoved); }
TEST_P(NcclBackendTest, BroadcastComesFromTheRoot) { run(collectives::broadcast_comes_from_the_root, kNcclMoved); }
TEST_P(NcclBackendTest, StartedOnesOverlap) { run(collectives::started_ones_overlap); }
TEST_P(NcclBackendTest, BytesAreCounted) { run(collectives::bytes_are_counted); }

TEST(NcclBackend, ReportsEachMembersCallInDebugMode) {
  run_wrapped(2, true, [](World& world) {
    const auto group = collectives::everyone(world);
    group->barrier();
    EXPECT_THAT(
        [&] {
          world.rank() == 1 ? group->broadcast(at::ones({4}, at::kHalf), 0) : group->all_reduce(at::ones({3, 2}));
        },
        ThrowsMessage<DistributedError>(
            "[collectives] members of group \"all\" must make the same calls; in their call 1 rank 0 called "
            "all_reduce(float32 [3, 2], sum), rank 1 broadcast(float16 [4], from member 0)."));
  });
}

TEST(NcclBackend, NamesTheLateRankInDebugMode) {
  Shared shared(2);
  shared.debug = true;
  shared.store->setTimeout(std::chrono::milliseconds(100));
  WrappedWorld world(shared, 0);
  EXPECT_THAT([&] { collectives::everyone(world)->all_reduce(at::ones({3})); },
              ThrowsMessage<DistributedError>(HasSubstr(
                  "[all_reduce] group \"all\" of ranks 0 and 1: no result after 0.1 s; rank 1 has not arrived.")));
}

}  // namespace
}  // namespace easydel
