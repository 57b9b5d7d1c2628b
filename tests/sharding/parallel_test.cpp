#include "easydel/sharding/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

Parallel planned(const std::vector<int64_t>& dims, const PartitionAxis& axis = {}, const AxisNames& experts = {"ep"}) {
  int64_t devices = 1;
  for (const int64_t dim : dims) devices *= dim;
  const Mesh mesh = create_mesh({.axis_dims = dims, .device_count = devices});
  return Parallel(std::make_shared<DeviceMesh>(mesh, planned_world(devices)), axis, experts);
}

TEST(Parallel, SplitsTheBatchTokensAndFeaturesOverTheirAxes) {
  const Parallel parallel = planned({2, 2, 2, 2, 2});
  EXPECT_THAT(parallel.batch(), ElementsAre("dp", "fsdp", "ep"));
  EXPECT_THAT(parallel.sequence(), ElementsAre("sp"));
  EXPECT_THAT(parallel.data(), ElementsAre("dp", "fsdp", "ep", "sp"));
  for (const LogicalAxis axis :
       {LogicalAxis::Head, LogicalAxis::KvHead, LogicalAxis::MlpIntermediate, LogicalAxis::Vocab}) {
    EXPECT_THAT(parallel.axes(axis), ElementsAre("tp"));
  }
  EXPECT_THAT(parallel.axes(LogicalAxis::Expert), ElementsAre("ep"));
  EXPECT_THAT(parallel.expert_inner(), ElementsAre("tp"));
  EXPECT_THAT(parallel.axes(LogicalAxis::Empty), IsEmpty());
  EXPECT_THAT(parallel.axes(LogicalAxis::Embed), IsEmpty());  // no rank computes with a part of the residual stream
  EXPECT_FALSE(parallel.is_single());
}

TEST(Parallel, OmitsAxesOfOneDevice) {
  const Parallel parallel = planned({1, 4, 1, 1, 2});
  EXPECT_THAT(parallel.batch(), ElementsAre("fsdp"));
  EXPECT_THAT(parallel.data(), ElementsAre("fsdp", "sp"));
  EXPECT_THAT(parallel.axes(LogicalAxis::Head), IsEmpty());
  EXPECT_THAT(parallel.axes(LogicalAxis::Expert), IsEmpty());
  EXPECT_TRUE(planned({1, 1, 1, 1, 1}).is_single());
}

TEST(Parallel, SplitsExpertsOverTheAxesOfTheConfig) {
  const Parallel bound = planned({1, 2, 2, 2, 2}, {}, {"ep", "fsdp", "sp"});
  EXPECT_THAT(bound.axes(LogicalAxis::Expert), ElementsAre("ep", "fsdp", "sp"));
  EXPECT_THAT(bound.expert_inner(), ElementsAre("tp"));
  const Parallel by_tensor = planned({1, 1, 1, 4, 1}, {}, {"tp"});
  EXPECT_THAT(by_tensor.axes(LogicalAxis::Expert), ElementsAre("tp"));
  EXPECT_THAT(by_tensor.expert_inner(), IsEmpty());
  EXPECT_THAT(by_tensor.axes(LogicalAxis::MlpIntermediate), ElementsAre("tp"));
}

TEST(Parallel, RejectsAnAxisThatShardsTwoThings) {
  EXPECT_THAT([] { planned({1, 2, 1, 1, 2}, {.sequence_axis = AxisNames{"fsdp"}}); },
              ThrowsMessage<ConfigError>(
                  "[PartitionAxis] an axis cannot shard the batch and also the sequence; got \"fsdp\" for both."));
  EXPECT_THAT(
      [] { planned({1, 2, 1, 2, 1}, {.head_axis = AxisNames{"tp", "fsdp"}}); },
      ThrowsMessage<ConfigError>(
          "[PartitionAxis] an axis cannot shard the batch or the sequence and also heads; got \"fsdp\" for both."));
  EXPECT_THAT(
      [] { planned({1, 1, 1, 1, 2}, {.mlp_intermediate_axis = AxisNames{"sp"}}); },
      ThrowsMessage<ConfigError>("[PartitionAxis] an axis cannot shard the batch or the sequence and also the MLP's "
                                 "inner dimension; got \"sp\" for both."));
  EXPECT_THAT([] { planned({2, 1, 1, 1, 1}, {.vocab_axis = AxisNames{"dp"}}); },
              ThrowsMessage<ConfigError>("[PartitionAxis] an axis cannot shard the batch or the sequence and also the "
                                         "vocabulary; got \"dp\" for both."));
  EXPECT_NO_THROW(planned({2, 1, 1, 1, 1}, {.sequence_axis = AxisNames{"fsdp"}}));  // of one device
}

TEST(Parallel, DoesNotComputeOnSimulatedRanks) {
  const Parallel parallel = planned({1, 2, 1, 1, 1});
  EXPECT_THAT([&] { parallel.group({"fsdp"}); },
              ThrowsMessage<DistributedError>("[World] the ranks of \"fsdp\" are simulated, and cannot compute."));
}

TEST(AxisLists, AreSetsInTheOrderOfTheFirst) {
  EXPECT_THAT(with({"a", "b"}, {"c", "a"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(without({"a", "b", "c"}, {"c", "a"}), ElementsAre("b"));
  EXPECT_THAT(common({"a", "b", "c"}, {"c", "a"}), ElementsAre("a", "c"));
  EXPECT_TRUE(contains({"a", "b"}, "b"));
  EXPECT_FALSE(contains({}, "b"));
}

}  // namespace
}  // namespace easydel
