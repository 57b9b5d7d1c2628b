#include "easydel/sharding/mesh/partition_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PartitionAxis, MapsEachDimensionByDefault) {
  const PartitionAxis axis;

  EXPECT_THAT(axis.resolve_axis(LogicalAxis::Batch), ElementsAre("dp", "fsdp", "ep"));
  for (const LogicalAxis length : {LogicalAxis::Length, LogicalAxis::QueryLength, LogicalAxis::KvLength}) {
    EXPECT_THAT(axis.resolve_axis(length), ElementsAre("sp"));
  }
  for (const LogicalAxis feature :
       {LogicalAxis::Embed, LogicalAxis::Head, LogicalAxis::KvHead, LogicalAxis::MlpIntermediate, LogicalAxis::Vocab}) {
    EXPECT_THAT(axis.resolve_axis(feature), ElementsAre("tp"));
  }
  EXPECT_THAT(axis.resolve_axis(LogicalAxis::Expert), ElementsAre("ep"));
  for (const LogicalAxis whole : {LogicalAxis::Empty, LogicalAxis::ExpertGate, LogicalAxis::HeadDim,
                                  LogicalAxis::KvHeadDim, LogicalAxis::BiasHeadLength, LogicalAxis::BiasKvLength}) {
    EXPECT_THAT(axis.resolve_axis(whole), IsEmpty());
  }
}

TEST(PartitionAxis, FollowsTheNamesOfTheMeshAxes) {
  PartitionAxis axis;
  axis.tensor_parallel_axis = "model";
  axis.data_parallel_axis = "data";

  EXPECT_EQ(axis.resolve_spec({LogicalAxis::Batch, LogicalAxis::Length, LogicalAxis::Head, LogicalAxis::HeadDim}),
            (PartitionSpec{{"data", "fsdp", "ep"}, "sp", "model", nullptr}));
}

TEST(PartitionAxis, UsesGivenAxes) {
  PartitionAxis axis;
  axis.batch_axis = AxisNames{"fsdp", "dp"};
  axis.vocab_axis = AxisNames{};

  EXPECT_THAT(axis.resolve_axis(LogicalAxis::Batch), ElementsAre("fsdp", "dp"));
  EXPECT_THAT(axis.resolve_axis(LogicalAxis::Vocab), IsEmpty());
}

TEST(PartitionAxis, DecodesOneTokenAtATime) {
  PartitionAxis axis;
  axis.head_axis = AxisNames{"tp", "sp"};
  axis.decode_key_sequence_axis = AxisNames{};

  EXPECT_THAT(axis.resolve_axis(LogicalAxis::QueryLength, RuntimeMode::Decode), IsEmpty());
  EXPECT_THAT(axis.resolve_axis(LogicalAxis::KvLength, RuntimeMode::Decode), IsEmpty());
  EXPECT_THAT(axis.resolve_axis(LogicalAxis::Head, RuntimeMode::Decode), ElementsAre("tp", "sp"));
  EXPECT_THAT(axis.resolve_axis(LogicalAxis::Batch, RuntimeMode::Decode), ElementsAre("dp", "fsdp", "ep"));
}

}  // namespace
}  // namespace easydel
