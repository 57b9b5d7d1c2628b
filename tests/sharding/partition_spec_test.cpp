#include "easydel/sharding/mesh/partition_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(PartitionSpec, PrintsAsPeopleWriteIt) {
  EXPECT_EQ((PartitionSpec{"fsdp", {"tp", "sp"}, nullptr}.to_string()), "P('fsdp', ('tp','sp'), None)");
  EXPECT_EQ(PartitionSpec().to_string(), "P()");
  EXPECT_EQ((PartitionSpec{{"fsdp", "sp"}}.to_string()), "P(('fsdp','sp'))");
  EXPECT_EQ((PartitionSpec{{}, "tp"}.to_string()), "P(None, 'tp')");
}

TEST(PartitionSpec, ReturnsTheAxesOfEachDimension) {
  const PartitionSpec spec{"fsdp", {"tp", "sp"}, nullptr};

  EXPECT_EQ(spec.size(), 3u);
  EXPECT_THAT(spec.axes(0), ElementsAre("fsdp"));
  EXPECT_THAT(spec.axes(1), ElementsAre("tp", "sp"));
  EXPECT_THAT(spec.axes(2), IsEmpty());
  EXPECT_THAT(spec.axes(7), IsEmpty());
  EXPECT_THAT(spec.axes(), ElementsAre("fsdp", "tp", "sp"));
  EXPECT_TRUE(spec.mentions("sp"));
  EXPECT_FALSE(spec.mentions("dp"));
}

TEST(PartitionSpec, IsEqualWhenItSplitsTheSameWay) {
  EXPECT_EQ((PartitionSpec{"tp"}), (PartitionSpec{"tp", nullptr}));
  EXPECT_EQ(PartitionSpec(), (PartitionSpec{nullptr, nullptr}));
  EXPECT_NE((PartitionSpec{"tp"}), (PartitionSpec{nullptr, "tp"}));
  EXPECT_NE((PartitionSpec{{"tp", "sp"}}), (PartitionSpec{{"sp", "tp"}}));
}

TEST(PartitionSpec, RefusesAnAxisNamedTwice) {
  EXPECT_THAT(([] { PartitionSpec{"tp", {"fsdp", "tp"}}; }),
              ThrowsMessage<ConfigError>(
                  "[PartitionSpec] axis names must be unique; got 'tp' twice in P('tp', ('fsdp','tp'))."));
}

TEST(PartitionSpec, RefusesAnAxisWithoutAName) {
  EXPECT_THAT(([] { PartitionSpec{"tp", ""}; }),
              ThrowsMessage<ConfigError>("[PartitionSpec] an axis must have a name; got P('tp', '')."));
}

}  // namespace
}  // namespace easydel
