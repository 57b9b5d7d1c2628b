#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

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

TEST(RunRanks, GivesEachThreadItsWorld) {
  std::atomic<int64_t> ranks{0};
  run_ranks(4, [&](World& world) {
    EXPECT_EQ(World::current().get(), &world);
    EXPECT_EQ(world.size(), 4);
    EXPECT_EQ(world.backend_name(), "threads");
    ranks += int64_t{1} << world.rank();
  });
  EXPECT_EQ(ranks, 15);
  EXPECT_EQ(World::current()->backend_name(), "single");
  EXPECT_EQ(World::current()->size(), 1);
}

TEST(RunRanks, TellsTheOthersWhenOneThrows) {
  std::atomic<int> told{0};
  const auto run = [&] {
    run_ranks(4, [&](World& world) {
      const auto group = collectives::everyone(world);
      group->barrier();
      if (world.rank() == 2) fail<ShapeError>("[Toy] no.");
      try {
        group->all_reduce(at::ones({3}));
      } catch (const DistributedError& error) {
        told += std::string(error.what()).find("rank 2 failed: [Toy] no.") != std::string::npos;
        EXPECT_THROW(group->barrier(), DistributedError);
        EXPECT_THROW(world.group("other", {{world.rank(), 2}})->barrier(), DistributedError);
        throw;
      }
    });
  };
  EXPECT_THAT(run, ThrowsMessage<ShapeError>("rank 2: [Toy] no."));
  EXPECT_EQ(told, 3);
}

TEST(RunRanks, DoesNotWaitForARankThatHasFinished) {
  const auto run = [] {
    run_ranks(3, [](World& world) {
      const auto group = collectives::everyone(world);
      if (world.rank() != 1) group->all_reduce(at::ones({3}));
    });
  };
  EXPECT_THAT(run, ThrowsMessage<DistributedError>(HasSubstr("rank 1 has finished")));
}

TEST(RunRanks, NamesTheRanksThatHaveNotArrived) {
  const auto run = [] {
    run_ranks(
        3,
        [](World& world) {
          const auto group = collectives::everyone(world);
          if (world.rank() == 1) {
            world.group("pair", {{1, 0}})->barrier();
          } else {
            group->all_reduce(at::ones({3}));
          }
        },
        {.timeout = std::chrono::milliseconds(200)});
  };
  EXPECT_THAT(run, ThrowsMessage<DistributedError>(AllOf(HasSubstr("no result after 0.2 s"),
                                                         HasSubstr("EASYDEL_TIMEOUT"), HasSubstr("not arrived"))));
}

TEST(RunRanks, TellsWhatEachAskedFor) {
  const auto run = [] {
    run_ranks(3, [](World& world) {
      const auto group = collectives::everyone(world);
      group->barrier();
      world.rank() == 1 ? group->broadcast(at::ones({4}, at::kHalf), 2) : group->all_reduce(at::ones({3, 2}));
    });
  };
  EXPECT_THAT(run, ThrowsMessage<DistributedError>(HasSubstr(
                       "[collectives] members of group \"all\" must ask for the same; in their call 1 ranks 0 and 2 "
                       "asks for all_reduce(float32 [3, 2], sum), rank 1 for broadcast(float16 [4], from member 2).")));
}

TEST(DeviceMesh, MakesGroupsOverItsAxes) {
  run_ranks(8, [](World&) {
    const DeviceMesh mesh(Mesh({{"dp", 2}, {"tp", 2}, {"sp", 2}}), World::current());
    EXPECT_EQ(mesh.group({"tp"}).size(), 2);
    EXPECT_EQ(mesh.group({"tp"}).rank(), mesh.index({"tp"}));
    const Group& group = mesh.group({"dp", "ep", "sp"});
    EXPECT_EQ(group.name(), "dp+sp");
    EXPECT_EQ(group.size(), 4);
    EXPECT_EQ(group.rank(), mesh.index({"dp", "sp"}));
    const at::Tensor t = at::full({1}, static_cast<double>(mesh.rank()));
    group.all_reduce(t);
    EXPECT_EQ(t.item<float>(), mesh.mesh().coordinate("tp", mesh.rank()) == 0 ? 0 + 1 + 4 + 5 : 2 + 3 + 6 + 7);
    EXPECT_EQ(mesh.group({"ep"}).size(), 1);
  });
}

TEST(DeviceMesh, RefusesAMeshOfAnotherSize) {
  EXPECT_THAT([] { DeviceMesh(Mesh({{"dp", 2}, {"tp", 3}}), World::current()); },
              ThrowsMessage<ConfigError>("[DeviceMesh] a mesh must have a device for each rank; got dp=2 tp=3 = 6 "
                                         "devices for 1 rank."));
  EXPECT_EQ(DeviceMesh::single()->group({"tp"}).size(), 1);
}

}  // namespace
}  // namespace easydel
