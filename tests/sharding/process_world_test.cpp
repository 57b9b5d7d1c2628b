#include "easydel/sharding/world/process_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Launch launch(const char* launcher, int64_t size, int64_t local_size) {
  return {.launcher = launcher, .size = size, .local_size = local_size};
}

constexpr Machine kCpu{.has_mpi = true}, kGpus{.has_mpi = true, .has_nccl = true, .gpus = 4}, kBare{};

TEST(ChooseBackend, UsesASingleRankWithoutALauncher) {
  EXPECT_EQ(choose_backend(std::nullopt, "", kGpus), "single");
  EXPECT_EQ(choose_backend(launch("mpirun", 1, 1), "", kGpus), "single");
  EXPECT_EQ(choose_backend(launch("mpirun", 4, 4), "single", kGpus), "single");
}

TEST(ChooseBackend, UsesNcclWithAGpuForEachRank) {
  EXPECT_EQ(choose_backend(launch("mpirun", 4, 4), "", kGpus), "nccl");
  EXPECT_EQ(choose_backend(launch("torchrun", 8, 4), "", kGpus), "nccl");
  EXPECT_EQ(choose_backend(launch("slurm", 8, 4), "", kGpus), "nccl");
}

TEST(ChooseBackend, UsesMpiOtherwise) {
  EXPECT_EQ(choose_backend(launch("mpirun", 8, 8), "", kGpus), "mpi");
  EXPECT_EQ(choose_backend(launch("mpirun", 4, 4), "", kCpu), "mpi");
  EXPECT_EQ(choose_backend(launch("slurm", 4, 4), "", kCpu), "mpi");
}

TEST(ChooseBackend, ObeysTheEnvironment) {
  EXPECT_EQ(choose_backend(launch("mpirun", 4, 4), "mpi", kGpus), "mpi");
  EXPECT_EQ(choose_backend(launch("mpirun", 8, 8), "nccl", kGpus), "nccl");
  EXPECT_EQ(choose_backend(launch("torchrun", 1, 1), "nccl", kGpus), "nccl");
}

TEST(ChooseBackend, ReportsWhatIsMissing) {
  EXPECT_THAT([] { choose_backend(std::nullopt, "gloo", kCpu); },
              ThrowsMessage<ConfigError>("[World] EASYDEL_BACKEND must be mpi, nccl or single; got \"gloo\"."));
  EXPECT_THAT([] { choose_backend(std::nullopt, "mpi", kCpu); },
              ThrowsMessage<ConfigError>(
                  "[World] EASYDEL_BACKEND=mpi needs ranks; start the run with mpirun, torchrun or srun."));
  EXPECT_THAT([] { choose_backend(launch("torchrun", 4, 4), "", kCpu); },
              ThrowsMessage<NotSupportedError>(HasSubstr("torchrun's ranks use NCCL, which this build lacks")));
  EXPECT_THAT([] { choose_backend(launch("torchrun", 8, 8), "", kGpus); },
              ThrowsMessage<NotSupportedError>(HasSubstr("needs a GPU for each rank of a machine; got 4 for 8")));
  EXPECT_THAT([] { choose_backend(launch("mpirun", 4, 4), "", kBare); },
              ThrowsMessage<NotSupportedError>(HasSubstr("mpirun has started 4 ranks, but this build has no MPI")));
}

}  // namespace
}  // namespace easydel
