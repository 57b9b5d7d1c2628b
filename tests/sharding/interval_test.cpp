#include "easydel/sharding/mesh/interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sharding/print_interval.h"
#include "tests/support/draw.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> sizes_of_parts(int64_t size, int64_t parts) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(even_part(size, parts, i).size());
  return sizes;
}

// All indices, in storage order.
std::vector<int64_t> places(const Intervals& intervals) {
  std::vector<int64_t> all;
  for (const Interval& i : intervals) {
    for (int64_t p = i.begin; p < i.end; ++p) all.push_back(p);
  }
  return all;
}

TEST(EvenPart, DiffersByOneAtMost) {
  EXPECT_THAT(sizes_of_parts(12, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(sizes_of_parts(7, 3), ElementsAre(2, 2, 3));
  EXPECT_THAT(sizes_of_parts(5, 8), ElementsAre(0, 1, 0, 1, 1, 0, 1, 1));
  EXPECT_THAT(sizes_of_parts(0, 3), ElementsAre(0, 0, 0));
}

TEST(EvenPart, TilesTheDimension) {
  for (int64_t size = 0; size < 40; ++size) {
    for (int64_t parts = 1; parts < 12; ++parts) {
      int64_t at = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Interval part = even_part(size, parts, i);
        EXPECT_EQ(part.begin, at);
        EXPECT_GE(part.size(), size / parts);
        EXPECT_LE(part.size(), (size + parts - 1) / parts);
        at = part.end;
      }
      EXPECT_EQ(at, size);
    }
  }
}

TEST(EvenPart, NestsWhereTheFirstSplitIsEqual) {
  for (int64_t first = 1; first < 6; ++first) {
    for (int64_t size = 0; size < 60; size += first) {
      for (int64_t second = 1; second < 9; ++second) {
        for (int64_t i = 0; i < first * second; ++i) {
          const Interval outer = even_part(size, first, i / second);
          const Interval inner = even_part(outer.size(), second, i % second);
          EXPECT_EQ((Interval{outer.begin + inner.begin, outer.begin + inner.end}), even_part(size, first * second, i))
              << size << " in " << first << " and " << second;
        }
      }
    }
  }
}

TEST(EvenPart, OfAnUnevenPartMayDiffer) {
  EXPECT_EQ(even_part(5, 2, 1), (Interval{2, 5}));
  EXPECT_EQ(even_part(3, 4, 0).size(), 0);  // of the second half
  EXPECT_EQ(even_part(5, 8, 4), (Interval{2, 3}));
}

TEST(SubIntervals, SliceTheConcatenatedIntervals) {
  const Intervals held{{10, 14}, {20, 22}, {30, 36}};
  EXPECT_THAT(sub_intervals(held, {0, 12}), ElementsAre(Interval{10, 14}, Interval{20, 22}, Interval{30, 36}));
  EXPECT_THAT(sub_intervals(held, {3, 7}), ElementsAre(Interval{13, 14}, Interval{20, 22}, Interval{30, 31}));
  EXPECT_THAT(sub_intervals(held, {4, 6}), ElementsAre(Interval{20, 22}));
  EXPECT_THAT(sub_intervals(held, {5, 5}), IsEmpty());
  EXPECT_THAT(sub_intervals({}, {0, 0}), IsEmpty());
}

TEST(SubIntervals, OfEvenPartsTileTheIntervals) {
  const Intervals held{{3, 10}, {11, 12}, {40, 45}};
  for (int64_t parts = 1; parts < 16; ++parts) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < parts; ++i) {
      for (const int64_t place : places(sub_intervals(held, even_part(total_size(held), parts, i))))
        all.push_back(place);
    }
    EXPECT_EQ(all, places(held)) << parts;
  }
}

TEST(Locate, FindsRangesInTheStoredIntervals) {
  const Intervals held{{10, 14}, {20, 22}, {30, 36}};
  EXPECT_THAT(locate({{11, 13}}, held), ElementsAre(Interval{1, 3}));
  EXPECT_THAT(locate({{20, 22}, {30, 32}}, held), ElementsAre(Interval{4, 8}));  // adjacent there
  EXPECT_THAT(locate({{30, 31}, {10, 11}}, held), ElementsAre(Interval{6, 7}, Interval{0, 1}));
  EXPECT_THAT(locate({{5, 5}}, held), IsEmpty());
  EXPECT_THAT(locate({{12, 16}}, {{14, 16}, {12, 14}}), ElementsAre(Interval{2, 4}, Interval{0, 2}));
}

TEST(Locate, InvertsToTheWantedIntervals) {
  for (uint64_t seed = 1; seed < 200; ++seed) {
    testing_support::Draw draw(seed);
    Intervals held;
    int64_t at = 0;
    for (int64_t i = draw.between(1, 5); i > 0; --i) {
      const int64_t begin = at + draw.between(0, 3);
      at = begin + draw.between(1, 6);
      held.push_back({begin, at});
    }
    const int64_t size = total_size(held), begin = draw.between(0, size), end = draw.between(begin, size);
    const Intervals wanted = sub_intervals(held, {begin, end});
    EXPECT_EQ(places(locate(wanted, held)), places({{begin, end}})) << "seed " << seed;
  }
}

}  // namespace
}  // namespace easydel
