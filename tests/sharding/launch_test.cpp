#include "easydel/sharding/world/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

std::optional<Launch> launch_with(std::map<std::string, std::string> variables) {
  return find_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, IsEmptyForASingleProcess) {
  EXPECT_FALSE(launch_with({}));
  EXPECT_FALSE(launch_with({{"MASTER_ADDR", "somewhere"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST(Launch, ReadsMpirun) {
  const auto launch = launch_with({{"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_SIZE", "8"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "mpirun");
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->local_size, 2);
  EXPECT_EQ(launch->address, "");
}

TEST(Launch, FindsItsOwnMachineWhenAllRanksAreOnIt) {
  const std::map<std::string, std::string> one{{"OMPI_COMM_WORLD_RANK", "1"},
                                               {"OMPI_COMM_WORLD_SIZE", "2"},
                                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                               {"PMIX_NAMESPACE", "12345"}};
  auto other = one;
  other["PMIX_NAMESPACE"] = "54321";
  EXPECT_EQ(launch_with(one)->address, "127.0.0.1");
  EXPECT_EQ(launch_with(one)->port, launch_with(one)->port);
  EXPECT_NE(launch_with(one)->port, launch_with(other)->port);
}

TEST(Launch, ReadsTorchrun) {
  const auto launch = launch_with({{"RANK", "5"},
                                   {"WORLD_SIZE", "16"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "4"},
                                   {"MASTER_ADDR", "host-a"},
                                   {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "torchrun");
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 16);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->local_size, 4);
  EXPECT_EQ(launch->address, "host-a");
  EXPECT_EQ(launch->port, 1234);
}

TEST(Launch, ReadsSlurm) {
  const auto launch = launch_with({{"SLURM_PROCID", "6"},
                                   {"SLURM_NTASKS", "8"},
                                   {"SLURM_LOCALID", "2"},
                                   {"SLURM_JOB_ID", "77"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                                   {"SLURM_JOB_NODELIST", "gpu[03-07,12],login1"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "slurm");
  EXPECT_EQ(launch->rank, 6);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->local_rank, 2);
  EXPECT_EQ(launch->local_size, 4);
  EXPECT_EQ(launch->address, "gpu03");
  EXPECT_GE(launch->port, 20000);
}

TEST(Launch, TakesTheFirstHostOfAList) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[7]"), "node7");
  EXPECT_EQ(first_host("node[08-11]-ib,x"), "node08-ib");
  EXPECT_EQ(first_host("rack2-n[1,5]"), "rack2-n1");
}

TEST(Launch, RefusesContradictions) {
  EXPECT_THAT([] { launch_with({{"RANK", "4"}, {"WORLD_SIZE", "4"}}); },
              ThrowsMessage<ConfigError>(
                  "[World] the rank set by torchrun must be less than the number of ranks; got 4 of 4."));
  EXPECT_THAT([] { launch_with({{"RANK", "x"}, {"WORLD_SIZE", "4"}}); },
              ThrowsMessage<ConfigError>("[World] RANK must be a number; got \"x\"."));
}

}  // namespace
}  // namespace easydel
