#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "easydel/core/error.h"
#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(RunRanks, GivesEachThreadItsOwnWorld) {
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

TEST(RunRanks, FailsTheOthersWhenOneThrows) {
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
    run_ranks(3,
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

TEST(RunRanks, ReportsEachMembersCall) {
  const auto run = [] {
    run_ranks(3, [](World& world) {
      const auto group = collectives::everyone(world);
      group->barrier();
      world.rank() == 1 ? group->broadcast(at::ones({4}, at::kHalf), 2) : group->all_reduce(at::ones({3, 2}));
    });
  };
  EXPECT_THAT(run, ThrowsMessage<DistributedError>(HasSubstr(
                       "[collectives] members of group \"all\" must make the same calls; in their call 1 ranks 0 and 2 "
                       "called all_reduce(float32 [3, 2], sum), rank 1 broadcast(float16 [4], from member 2).")));
}

TEST(RunRanks, SharesTorchsThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(7);
  run_ranks(3, [](World&) { EXPECT_EQ(at::get_num_threads(), 2); });
  run_ranks(9, [](World&) { EXPECT_EQ(at::get_num_threads(), 1); });
  EXPECT_EQ(at::get_num_threads(), 7);
  at::set_num_threads(before);
}

TEST(RunRanks, KeepsTheCallersGradMode) {
  run_ranks(2, [](World&) { EXPECT_TRUE(at::GradMode::is_enabled()); });
  const at::NoGradGuard no_gradients;
  run_ranks(2, [](World&) { EXPECT_FALSE(at::GradMode::is_enabled()); });
}

TEST(RunRanks, ConvertsOtherExceptionsToDistributedErrors) {
  EXPECT_THAT(
      [] {
        run_ranks(2, [](World& world) {
          if (world.rank() == 1) throw std::out_of_range("far");
        });
      },
      ThrowsMessage<DistributedError>("rank 1: far"));
  EXPECT_THAT(
      [] {
        run_ranks(2, [](World& world) {
          if (world.rank() == 0) throw 7;
        });
      },
      ThrowsMessage<DistributedError>("rank 0: an error that is not a std::exception"));
  EXPECT_THAT([] { run_ranks(0, [](World&) {}); },
              ThrowsMessage<ConfigError>("[run_ranks] there must be at least one rank; got 0."));
}

TEST(RunRanks, EndsWithPendingWork) {
  const auto run = [] {
    run_ranks(2, [](World& world) {
      const auto group = collectives::everyone(world);
      std::vector<at::Tensor> out;
      const auto pending = group->start_all_gather(at::ones({100000}), {{100000, 100000}}, out);
      if (world.rank() == 0) fail<ShapeError>("[Toy] no.");
      pending->wait();  // may come before or after the failure; both are fine
    });
  };
  for (int i = 0; i < 50; ++i) EXPECT_THAT(run, ThrowsMessage<ShapeError>("rank 0: [Toy] no."));
}

TEST(World, RefusesImpossibleGroups) {
  const auto world = World::current();
  EXPECT_THAT([&] { world->group("x", {{0, 1}}); },
              ThrowsMessage<ConfigError>("[World] a rank of a group must be below 1; got 1."));
  EXPECT_THAT([&] { world->group("x", {{0, 0}}); },
              ThrowsMessage<ConfigError>("[World] the ranks of a group must be unique; got 0 twice."));
  EXPECT_THAT(
      [] { run_ranks(2, [](World& ranks) { ranks.group("x", {{0}}); }); },
      ThrowsMessage<ConfigError>("rank 1: [World] a rank must be a member of the groups that it creates; rank 1 "
                                 "is not."));
}

TEST(World, ReadsTheEnvironment) {
  ::setenv("EASYDEL_TIMEOUT", "2.5", 1);
  ::setenv("EASYDEL_DEBUG_COLLECTIVES", "1", 1);
  EXPECT_EQ(WorldOptions().timeout, std::chrono::milliseconds(2500));
  EXPECT_TRUE(WorldOptions().debug);
  ::setenv("EASYDEL_TIMEOUT", "soon", 1);
  ::setenv("EASYDEL_DEBUG_COLLECTIVES", "maybe", 1);
  EXPECT_THAT([] { default_collective_timeout(); },
              ThrowsMessage<ConfigError>("[World] EASYDEL_TIMEOUT must be a number of seconds above 0; got \"soon\"."));
  EXPECT_THAT([] { default_collective_debug(); },
              ThrowsMessage<ConfigError>("[World] EASYDEL_DEBUG_COLLECTIVES must be 0 or 1; got \"maybe\"."));
  ::unsetenv("EASYDEL_TIMEOUT");
  ::unsetenv("EASYDEL_DEBUG_COLLECTIVES");
  EXPECT_EQ(WorldOptions().timeout, std::chrono::minutes(10));
  EXPECT_FALSE(WorldOptions().debug);
}

TEST(Group, RejectsMismatchedTensors) {
  run_ranks(2, [](World& world) {
    const auto group = collectives::everyone(world);
    EXPECT_THAT(
        [&] { group->all_reduce(at::ones({2, 3}).t()); },
        ThrowsMessage<ShapeError>("[all_reduce] a tensor must be contiguous; got shape [3, 2] with strides [1, 3]."));
    EXPECT_THAT([&] { group->all_reduce(at::ones({2}, at::kBool)); },
                ThrowsMessage<NotSupportedError>(HasSubstr("got bool")));
    EXPECT_THAT([&] { group->all_gather(at::ones({2}), {{2, 2, 2}}); },
                ThrowsMessage<ShapeError>(HasSubstr("[2, 2, 2]")));
    EXPECT_THAT([&] { group->reduce_scatter({at::ones({2})}); },
                ThrowsMessage<ShapeError>("[reduce_scatter] there must be a part for each of 2 members; got 1."));
    EXPECT_THAT([&] { group->all_to_all(at::ones({3}), {{1, 1}}, {{1, 1}}); },
                ThrowsMessage<ShapeError>(HasSubstr("[1, 1] in")));
    EXPECT_THAT([&] { group->broadcast(at::ones({3}), 2); },
                ThrowsMessage<ShapeError>("[broadcast] the root must be a member below 2; got 2."));
  });
}

TEST(DeviceMesh, CreatesGroupsOverItsAxes) {
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

TEST(DeviceMesh, RejectsAMeshOfADifferentSize) {
  EXPECT_THAT([] { DeviceMesh(Mesh({{"dp", 2}, {"tp", 3}}), World::current()); },
              ThrowsMessage<ConfigError>("[DeviceMesh] a mesh must have a device for each rank; got dp=2 tp=3 = 6 "
                                         "devices for 1 rank."));
  EXPECT_EQ(DeviceMesh::single()->group({"tp"}).size(), 1);
}

}  // namespace
}  // namespace easydel
