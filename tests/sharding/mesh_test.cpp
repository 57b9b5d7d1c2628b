#include "easydel/sharding/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

using Names = std::vector<std::string>;

TEST(Mesh, CountsRanksWithTheLastAxisFastest) {
  const Mesh mesh({{"dp", 2}, {"fsdp", 3}, {"tp", 4}});

  EXPECT_EQ(mesh.size(), 24);
  EXPECT_EQ(mesh.size("fsdp"), 3);
  EXPECT_EQ(mesh.size("ep"), 1);
  EXPECT_THAT(mesh.coordinates(0), ElementsAre(0, 0, 0));
  EXPECT_THAT(mesh.coordinates(5), ElementsAre(0, 1, 1));
  EXPECT_THAT(mesh.coordinates(23), ElementsAre(1, 2, 3));
  EXPECT_EQ(mesh.coordinate("tp", 7), 3);
  EXPECT_EQ(mesh.coordinate("ep", 7), 0);
  EXPECT_EQ(mesh.to_string(), "dp=2 fsdp=3 tp=4");
}

TEST(Mesh, GroupsRanksOverAnyAxes) {
  const Mesh mesh({{"dp", 2}, {"fsdp", 2}, {"tp", 2}});

  EXPECT_THAT(mesh.group(Names{"tp"}, 5), ElementsAre(4, 5));
  EXPECT_THAT(mesh.group(Names{"dp"}, 3), ElementsAre(3, 7));
  EXPECT_THAT(mesh.group(Names{"dp", "tp"}, 2), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(mesh.group(Names{"tp", "dp"}, 2), ElementsAre(2, 6, 3, 7));  // the first axis varies slowest
  EXPECT_THAT(mesh.group(Names{"ep"}, 6), ElementsAre(6));
  EXPECT_THAT(mesh.group(Names{}, 6), ElementsAre(6));
}

// For any mesh: coordinates and ranks are inverse, and groups over the same axes split the ranks into equal parts.
TEST(Mesh, GroupsSplitTheRanksIntoEqualParts) {
  for (const std::vector<int64_t>& dcn : {std::vector<int64_t>{}, {1, 2, 1, 1, 1}, {2, 1, 1, 3, 1}}) {
    const Mesh mesh = create_mesh({.axis_dims = {2, -1, 1, 2, 3}, .dcn_axis_dims = dcn, .device_count = 144});
    for (int64_t rank = 0; rank < mesh.size(); ++rank) EXPECT_EQ(mesh.rank(mesh.coordinates(rank)), rank);
    for (const Names& axes : {Names{"fsdp"}, Names{"sp", "tp"}, Names{"dp", "sp"}, Names{"dp", "fsdp", "ep"}}) {
      std::set<std::vector<int64_t>> groups;
      for (int64_t rank = 0; rank < mesh.size(); ++rank) {
        const auto group = mesh.group(axes, rank);
        EXPECT_EQ(static_cast<int64_t>(group.size()), mesh.size(axes));
        EXPECT_EQ(group[mesh.index_in_group(axes, rank)], rank);
        groups.insert(group);
      }
      EXPECT_EQ(static_cast<int64_t>(groups.size()) * mesh.size(axes), mesh.size());
    }
  }
}

TEST(Mesh, RejectsInvalidAxes) {
  EXPECT_THAT([] { Mesh({{"", 1}}); },
              ThrowsMessage<ConfigError>("[Mesh] an axis must have a name; got an empty one."));
  EXPECT_THAT(([] { Mesh({{"tp", 1}, {"tp", 2}}); }),
              ThrowsMessage<ConfigError>("[Mesh] axis names must be unique; got \"tp\" twice."));
  EXPECT_THAT(([] { Mesh({{"tp", 0}}); }),
              ThrowsMessage<ConfigError>("[Mesh] the size of an axis must be at least 1; got tp = 0."));
  EXPECT_THAT(([] { Mesh({{"tp", 4, 3}}); }),
              ThrowsMessage<ConfigError>("[Mesh] the dcn_size of an axis must divide its size; got 3 of tp = 4."));
}

TEST(Mesh, RejectsRanksAndCoordinatesOutOfRange) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}});

  EXPECT_THAT([&] { mesh.coordinates(4); },
              ThrowsMessage<ConfigError>("[Mesh] a rank must be at least 0 and below 4; got 4."));
  EXPECT_THAT([&] { mesh.coordinate("ep", -1); },
              ThrowsMessage<ConfigError>("[Mesh] a rank must be at least 0 and below 4; got -1."));
  EXPECT_THAT(([&] { mesh.rank(std::vector<int64_t>{0, 2}); }),
              ThrowsMessage<ConfigError>("[Mesh] the coordinate along tp must be at least 0 and below 2; got 2."));
  EXPECT_THAT(([&] { mesh.rank(std::vector<int64_t>{0}); }),
              ThrowsMessage<ConfigError>("[Mesh] there must be one coordinate for each of 2 axes; got 1."));
}

TEST(CreateMesh, GivesTheOpenAxisAllRemainingDevices) {
  EXPECT_EQ(create_mesh({.device_count = 8}).to_string(), "dp=1 fsdp=8 ep=1 tp=1 sp=1");
  EXPECT_EQ(create_mesh({.axis_dims = {1, 2, 1, -1, 2}, .device_count = 8}).to_string(), "dp=1 fsdp=2 ep=1 tp=2 sp=2");
  EXPECT_EQ(create_mesh({}).size(), 1);
}

TEST(CreateMesh, TakesTheOlderFourAxesAsExpertsOnOneDevice) {
  const Mesh five = create_mesh({.axis_dims = {1, 4, 1, 2, 1}, .device_count = 8});

  EXPECT_EQ(create_mesh({.axis_dims = {1, -1, 2, 1}, .device_count = 8}), five);
  EXPECT_EQ(create_mesh({.axis_dims = {1, -1, 2, 1}, .axis_names = {"dp", "fsdp", "tp", "sp"}, .device_count = 8}),
            five);
  EXPECT_EQ(create_mesh({.axis_dims = {1, 2, 2, 1}, .dcn_axis_dims = {1, 2, 1, 1}, .device_count = 8}).size("fsdp"), 4);
  EXPECT_EQ(create_mesh({.axis_dims = {2, 1, 1, 4}, .axis_names = {"a", "b", "c", "d"}, .device_count = 8}).to_string(),
            "a=2 b=1 c=1 d=4");
}

TEST(CreateMesh, KeepsTheInnerPartOfEachAxisInOneDcnSlice) {
  const Mesh mesh = create_mesh({.axis_dims = {1, 2, 1, 2, 1}, .dcn_axis_dims = {1, 2, 1, 1, 1}, .device_count = 8});

  EXPECT_EQ(mesh.to_string(), "dp=1 fsdp=4 ep=1 tp=2 sp=1");
  EXPECT_THAT(mesh.group(Names{"fsdp"}, 0), ElementsAre(0, 2, 4, 6));  // 0 to 3 are one slice, 4 to 7 the other
  EXPECT_THAT(mesh.group(Names{"tp"}, 6), ElementsAre(6, 7));

  const Mesh crossed = create_mesh({.axis_dims = {1, 2, 1, 2, 1}, .dcn_axis_dims = {1, 1, 1, 2, 1}, .device_count = 8});
  EXPECT_THAT(crossed.group(Names{"tp"}, 0), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(crossed.group(Names{"fsdp"}, 0), ElementsAre(0, 2));
}

TEST(CreateMesh, ShowsTheArithmeticOfAnImpossibleMesh) {
  EXPECT_THAT(([] { create_mesh({.axis_dims = {1, 4, 1, 3, 1}, .device_count = 8}); }),
              ThrowsMessage<ConfigError>("[create_mesh] sharding_axis_dims must multiply to the number of devices; got "
                                         "1x4x1x3x1 = 12, but there are 8 devices."));
  EXPECT_THAT(([] { create_mesh({.axis_dims = {1, -1, 1, 3, 1}, .device_count = 8}); }),
              ThrowsMessage<ConfigError>("[create_mesh] the -1 in sharding_axis_dims must resolve to an integer; got "
                                         "1x-1x1x3x1, and 8 devices are not a multiple of 3."));
  EXPECT_THAT(
      ([] { create_mesh({.axis_dims = {1, 4, 1, 1, 1}, .dcn_axis_dims = {1, 3, 1, 1, 1}, .device_count = 8}); }),
      ThrowsMessage<ConfigError>("[create_mesh] sharding_axis_dims must multiply to the number of devices; got "
                                 "1x4x1x1x1 = 4 in each of 1x3x1x1x1 = 3 DCN slices, but there "
                                 "are 8 devices."));
  EXPECT_THAT(([] { create_mesh({.axis_dims = {int64_t{1} << 40, int64_t{1} << 40, 1, 1, 1}}); }),
              ThrowsMessage<ConfigError>("[create_mesh] a mesh must have fewer than 2^63 devices; got "
                                         "1099511627776x1099511627776x1x1x1."));
}

TEST(CreateMesh, RejectsInvalidDimensions) {
  EXPECT_THAT(
      ([] { create_mesh({.axis_dims = {1, 2}, .device_count = 2}); }),
      ThrowsMessage<ConfigError>(
          "[create_mesh] sharding_axis_dims and sharding_axis_names must have the same length; got 2 (1x2) and 5."));
  EXPECT_THAT(([] { create_mesh({.axis_dims = {-1, -1, 1, 1, 1}}); }),
              ThrowsMessage<ConfigError>("[create_mesh] only one of sharding_axis_dims may be -1; got -1x-1x1x1x1."));
  EXPECT_THAT(([] { create_mesh({.axis_dims = {1, 0, 1, 1, 1}}); }),
              ThrowsMessage<ConfigError>("[create_mesh] each of sharding_axis_dims must be at least 1, or -1; got 0 in "
                                         "1x0x1x1x1."));
  EXPECT_THAT(
      ([] { create_mesh({.axis_names = {"dp", "dp", "ep", "tp", "sp"}}); }),
      ThrowsMessage<ConfigError>("[create_mesh] sharding_axis_names must be unique and not empty; got \"dp\"."));
  EXPECT_THAT(
      ([] { create_mesh({.dcn_axis_dims = {1, 2}}); }),
      ThrowsMessage<ConfigError>(
          "[create_mesh] sharding_dcn_axis_dims and sharding_axis_dims must have the same length; got 2 (1x2) and 5."));
  EXPECT_THAT(([] { create_mesh({.dcn_axis_dims = {1, -1, 1, 1, 1}}); }),
              ThrowsMessage<ConfigError>("[create_mesh] each of sharding_dcn_axis_dims must be at least 1; got -1 in "
                                         "1x-1x1x1x1."));
  EXPECT_THAT(([] { create_mesh({.device_count = 0}); }),
              ThrowsMessage<ConfigError>("[create_mesh] there must be at least one device; got 0."));
}

}  // namespace
}  // namespace easydel
