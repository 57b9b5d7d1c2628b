#include "easydel/infra/parallel/weight_specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace easydel {
namespace {

TEST(WeightSpecs, ComputesOneDimensionInParallelAndShardsTheOther) {
  const WeightSpecs specs(ShardingSettings{});

  EXPECT_EQ(specs.split_first(LogicalAxis::Head), (PartitionSpec{"tp", {"fsdp", "sp"}}));
  EXPECT_EQ(specs.split_second(LogicalAxis::Head), (PartitionSpec{{"fsdp", "sp"}, "tp"}));
  EXPECT_EQ(specs.shard_second(), (PartitionSpec{nullptr, {"fsdp", "sp"}}));
  EXPECT_EQ(specs.bias(LogicalAxis::Head), PartitionSpec{"tp"});
}

TEST(WeightSpecs, KeepsWeightsWholeOnEveryRankOfFsdpWhenAsked) {
  const WeightSpecs specs(ShardingSettings{}, /*fully_sharded=*/false);

  EXPECT_EQ(specs.split_first(LogicalAxis::Head), PartitionSpec{"tp"});
  EXPECT_EQ(specs.split_second(LogicalAxis::Head), (PartitionSpec{nullptr, "tp"}));
  EXPECT_EQ(specs.shard_second(), PartitionSpec());
  EXPECT_EQ(specs.experts_split_first(LogicalAxis::MlpIntermediate), (PartitionSpec{"ep", "tp"}));
}

TEST(WeightSpecs, DealsExpertsOverTheAxesThatAreBoundToThem) {
  ShardingSettings sharding;
  EXPECT_EQ(WeightSpecs(sharding).experts_split_first(LogicalAxis::MlpIntermediate),
            (PartitionSpec{{"ep", "fsdp", "sp"}, "tp"}));
  EXPECT_EQ(WeightSpecs(sharding).experts_split_second(LogicalAxis::MlpIntermediate),
            (PartitionSpec{{"ep", "fsdp", "sp"}, nullptr, "tp"}));

  sharding.fsdp_is_ep_bound = false;
  EXPECT_EQ(WeightSpecs(sharding).experts_split_first(LogicalAxis::MlpIntermediate),
            (PartitionSpec{{"ep", "sp"}, "tp", "fsdp"}));
  sharding.sp_is_ep_bound = false;
  EXPECT_EQ(WeightSpecs(sharding).experts_split_second(LogicalAxis::MlpIntermediate),
            (PartitionSpec{"ep", {"fsdp", "sp"}, "tp"}));

  sharding.use_expert_tensor_mode = true;
  EXPECT_EQ(WeightSpecs(sharding).experts_split_first(LogicalAxis::MlpIntermediate),
            (PartitionSpec{"tp", nullptr, {"fsdp", "sp"}}));
}

TEST(WeightSpecs, NeverNamesAnAxisTwice) {
  ShardingSettings sharding;
  sharding.partition_axis.head_axis = AxisNames{"tp", "sp"};
  sharding.partition_axis.vocab_axis = AxisNames{};

  EXPECT_EQ(WeightSpecs(sharding).split_first(LogicalAxis::Head), (PartitionSpec{{"tp", "sp"}, "fsdp"}));
  EXPECT_EQ(WeightSpecs(sharding).split_first(LogicalAxis::Vocab), (PartitionSpec{nullptr, {"fsdp", "sp"}}));
}

}  // namespace
}  // namespace easydel
