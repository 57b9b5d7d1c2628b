#include "easydel/sharding/mesh/dim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sharding/print_interval.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The number of parts that contain each index.
std::vector<int> holders(const Dim& dim, int64_t parts) {
  std::vector<int> count(static_cast<std::size_t>(dim.size), 0);
  for (int64_t i = 0; i < parts; ++i) {
    for (const Interval& interval : dim.part(parts, i)) {
      for (int64_t p = interval.begin; p < interval.end; ++p) ++count[static_cast<std::size_t>(p)];
    }
  }
  return count;
}

TEST(Dim, OfPlainFeaturesIsSplitAnywhere) {
  const Dim dim(7);
  EXPECT_THAT(dim.part(3, 0), ElementsAre(Interval{0, 2}));
  EXPECT_THAT(dim.part(3, 2), ElementsAre(Interval{4, 7}));
  EXPECT_THAT(Dim(2).part(3, 0), IsEmpty());
  EXPECT_FALSE(dim.has_shared_parts(3));
}

TEST(Dim, IsNeverSplitInsideAGrain) {
  const Dim dim(20, LogicalAxis::Head, 4);
  EXPECT_THAT(dim.part(2, 0), ElementsAre(Interval{0, 8}));
  EXPECT_THAT(dim.part(2, 1), ElementsAre(Interval{8, 20}));
  EXPECT_THAT(dim.part(8, 0), IsEmpty());
  EXPECT_THAT(dim.part(8, 1), ElementsAre(Interval{0, 4}));
}

TEST(Dim, OfGateAndUpIsSplitInBothHalves) {
  const Dim dim = Dim::halves(5, LogicalAxis::MlpIntermediate);
  EXPECT_EQ(dim.size, 10);
  EXPECT_THAT(dim.part(2, 0), ElementsAre(Interval{0, 2}, Interval{5, 7}));
  EXPECT_THAT(dim.part(2, 1), ElementsAre(Interval{2, 5}, Interval{7, 10}));
  EXPECT_THAT(dim.part(6, 0), IsEmpty());
}

TEST(Dim, OfFusedHeadsGivesWholeHeadsOfEach) {
  const Dim dim = Dim::fused_heads({4, 2}, 8);  // q0 q1 q2 q3 k0 k1 v0 v1
  EXPECT_EQ(dim.size, 64);
  EXPECT_THAT(dim.part(2, 0), ElementsAre(Interval{0, 16}, Interval{32, 40}, Interval{48, 56}));
  EXPECT_THAT(dim.part(2, 1), ElementsAre(Interval{16, 32}, Interval{40, 48}, Interval{56, 64}));
}

TEST(Dim, KeepsQueriesWithTheirKeyValueHead) {
  const HeadCounts heads{6, 3};
  EXPECT_THAT(Dim::query_heads(heads, 2).part(2, 0), ElementsAre(Interval{0, 4}));
  EXPECT_THAT(Dim::kv_heads(heads, 2).part(2, 0), ElementsAre(Interval{0, 2}));
  EXPECT_THAT(Dim::query_heads(heads, 2).part(2, 1), ElementsAre(Interval{4, 12}));
  EXPECT_THAT(Dim::kv_heads(heads, 2).part(2, 1), ElementsAre(Interval{2, 6}));
}

TEST(Dim, SharesKeyValueHeadsThatAreFewerThanTheParts) {
  const HeadCounts heads{8, 2};
  const Dim queries = Dim::query_heads(heads, 1), kv = Dim::kv_heads(heads, 1), fused = Dim::fused_heads(heads, 1);
  EXPECT_THAT(queries.part(4, 1), ElementsAre(Interval{2, 4}));
  EXPECT_THAT(kv.part(4, 1), ElementsAre(Interval{0, 1}));
  EXPECT_THAT(kv.part(4, 2), ElementsAre(Interval{1, 2}));
  EXPECT_THAT(fused.part(4, 2), ElementsAre(Interval{4, 6}, Interval{9, 10}, Interval{11, 12}));
  EXPECT_TRUE(kv.has_shared_parts(4));
  EXPECT_TRUE(fused.has_shared_parts(4));
  EXPECT_FALSE(queries.has_shared_parts(4));
  EXPECT_FALSE(kv.has_shared_parts(2));
  EXPECT_FALSE(Dim::kv_heads({8, 8}, 1).has_shared_parts(16));  // not shared: some parts have no head at all
}

TEST(Dim, GivesAPartTwoKeyValueHeadsWhenItsQueriesNeedTwo) {
  const HeadCounts heads{6, 2};  // queries 0 to 2 use the first, 3 to 5 the second
  const Dim kv = Dim::kv_heads(heads, 1);
  EXPECT_THAT(Dim::query_heads(heads, 1).part(4, 1), ElementsAre(Interval{1, 3}));
  EXPECT_THAT(kv.part(4, 1), ElementsAre(Interval{0, 1}));
  EXPECT_THAT(Dim::query_heads(heads, 1).part(4, 2), ElementsAre(Interval{3, 4}));
  const HeadCounts odd{9, 3};
  EXPECT_THAT(Dim::query_heads(odd, 1).part(4, 1), ElementsAre(Interval{2, 4}));
  EXPECT_THAT(Dim::kv_heads(odd, 1).part(4, 1), ElementsAre(Interval{0, 2}));
}

TEST(Dim, HasEveryIndexInSomePartAndQueriesInOne) {
  for (const HeadCounts heads : {HeadCounts{1, 1}, {4, 4}, {6, 3}, {8, 2}, {9, 3}, {12, 4}, {5, 1}}) {
    for (int64_t parts = 1; parts < 10; ++parts) {
      for (const int count : holders(Dim::query_heads(heads, 3), parts)) EXPECT_EQ(count, 1);
      const Dim kv = Dim::kv_heads(heads, 3);
      for (const int count : holders(kv, parts)) {
        EXPECT_GE(count, 1);
        EXPECT_TRUE(count == 1 || kv.has_shared_parts(parts));
      }
    }
  }
}

TEST(Dim, OfKeyValueHeadsContainsExactlyThoseOfItsQueries) {
  for (const HeadCounts heads : {HeadCounts{4, 4}, {6, 3}, {8, 2}, {9, 3}, {12, 4}, {5, 1}}) {
    const int64_t group = heads.query / heads.kv;
    for (int64_t parts = 1; parts < 10; ++parts) {
      for (int64_t i = 0; i < parts; ++i) {
        const Interval queries = heads.query_part(parts, i), kv = heads.kv_part(parts, i);
        if (queries.size() == 0) {
          EXPECT_EQ(kv.size(), 0);
        } else {
          EXPECT_EQ(kv.begin, queries.begin / group);
          EXPECT_EQ(kv.end, (queries.end - 1) / group + 1);
        }
      }
    }
  }
}

TEST(HeadPart, AgreesWithTheDimensionsOfTheWeights) {
  for (const HeadCounts heads : {HeadCounts{4, 4}, {6, 3}, {8, 2}, {9, 3}, {12, 4}, {5, 1}}) {
    const HeadPart all{heads, {0, heads.query}, {0, heads.kv}};
    EXPECT_TRUE(all.is_even());
    for (int64_t parts = 1; parts < 10; ++parts) {
      for (int64_t i = 0; i < parts; ++i) {
        EXPECT_EQ(all.part(parts, i).query, heads.query_part(parts, i));
        EXPECT_EQ(all.part(parts, i).kv.size(), heads.kv_part(parts, i).size());
        EXPECT_TRUE(all.part(parts, i).kv.size() == 0 || all.part(parts, i).kv == heads.kv_part(parts, i));
      }
    }
  }
}

TEST(HeadPart, OfAPartStaysInsideIt) {
  const HeadPart all{{12, 4}, {0, 12}, {0, 4}};
  for (int64_t outer = 1; outer < 6; ++outer) {
    for (int64_t i = 0; i < outer; ++i) {
      const HeadPart part = all.part(outer, i);
      for (int64_t inner = 1; inner < 6; ++inner) {
        int64_t at = part.query.begin;
        for (int64_t j = 0; j < inner; ++j) {
          const HeadPart piece = part.part(inner, j);
          EXPECT_EQ(piece.query.begin, at);
          at = piece.query.end;
          if (piece.query.size() == 0) continue;
          EXPECT_GE(piece.kv.begin, part.kv.begin);
          EXPECT_LE(piece.kv.end, part.kv.end);
        }
        EXPECT_EQ(at, part.query.end);
      }
    }
  }
}

TEST(HeadPart, MapsEachQueryToItsKeyValueHead) {
  const HeadPart part{{9, 3}, {2, 4}, {0, 2}};  // the last query of the first group, the first of the second
  EXPECT_THAT(part.kv_of_query(), ElementsAre(0, 1));
  EXPECT_TRUE(part.is_even());
  const HeadPart uneven{{9, 3}, {1, 4}, {0, 2}};
  EXPECT_THAT(uneven.kv_of_query(), ElementsAre(0, 0, 1));
  EXPECT_FALSE(uneven.is_even());
  EXPECT_TRUE((HeadPart{{9, 3}, {2, 2}, {}}).is_even());
}

}  // namespace
}  // namespace easydel
