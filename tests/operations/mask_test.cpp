#include "easydel/operations/attention/mask.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

constexpr int64_t kBatch = 2;

// The rules implemented naively, one pair at a time.
bool sees(const MaskInfo& m, int64_t queries, int64_t keys, int64_t b, int64_t q, int64_t k) {
  const int64_t slot =
      m.q_positions.defined() ? m.q_positions[b][q].item<int64_t>() : m.q_offset.value_or(keys - queries) + q;
  if (m.causal && k > slot) return false;
  if (m.sliding_window > 0 && (k <= slot - m.sliding_window || k >= slot + m.sliding_window)) return false;
  if (m.padding_mask.defined() && m.padding_mask[b][k].item<int64_t>() == 0) return false;
  if (m.q_segment_ids.defined()) {
    const Tensor& keys_ids = m.kv_segment_ids.defined() ? m.kv_segment_ids : m.q_segment_ids;
    const int64_t id = keys_ids[b][k].item<int64_t>();
    if (id < 0 || id != m.q_segment_ids[b][q].item<int64_t>()) return false;
  }
  return !m.explicit_mask.defined() || m.explicit_mask.expand({kBatch, 1, queries, keys})[b][0][q][k].item<bool>();
}

Tensor by_hand(const MaskInfo& mask, int64_t queries, int64_t keys) {
  Tensor out = at::empty({kBatch, 1, queries, keys}, at::kBool);
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t k = 0; k < keys; ++k) out[b][0][q][k] = sees(mask, queries, keys, b, q, k);
  return out;
}

struct Case {
  const char* name;
  int64_t queries, keys;
  MaskInfo mask;
};

Tensor longs(std::vector<int64_t> values) { return at::tensor(values, at::kLong).view({kBatch, -1}); }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, int64_t queries, int64_t keys) -> MaskInfo& {
    return all.emplace_back(Case{name, queries, keys, {}}).mask;
  };
  add("causal", 6, 6);
  add("everything", 6, 6).causal = false;
  add("window", 6, 6).sliding_window = 3;
  add("window of one", 6, 6).sliding_window = 1;
  add("window longer than all", 6, 6).sliding_window = 9;
  {
    MaskInfo& m = add("window both ways", 6, 6);
    m.causal = false;
    m.sliding_window = 2;
  }
  add("right padding", 6, 6).padding_mask = longs({1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1});
  add("left padding, bool", 6, 6).padding_mask = longs({0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}).to(at::kBool);
  add("packed", 6, 6).q_segment_ids = longs({0, 0, 1, 1, 1, 2, 5, 5, 5, 5, 7, -1});
  add("decode", 1, 6);
  add("decode several", 3, 7);
  {
    MaskInfo& m = add("static cache", 2, 8);
    m.q_offset = 3;
    m.sliding_window = 3;
  }
  add("rows at different places", 2, 8).q_positions = longs({3, 4, 6, 7});
  {
    MaskInfo& m = add("segments in a cache", 2, 5);
    m.q_segment_ids = longs({1, 1, 0, 0});
    m.kv_segment_ids = longs({0, 1, 1, 1, 1, 0, 0, -1, 0, 0});
  }
  add("explicit", 4, 4).explicit_mask = at::rand({1, 1, 4, 4}).gt(0.5);
  {
    MaskInfo& m = add("all at once", 5, 7);
    m.sliding_window = 4;
    m.padding_mask = longs({0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
    m.q_segment_ids = longs({0, 0, 1, 1, 1, 0, 0, 0, 0, 0});
    m.kv_segment_ids = longs({0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0});
  }
  return all;
}

Tensor whole(const MaskInfo& mask, int64_t queries, int64_t keys) {
  return mask.to_bool(queries, keys, at::kCPU).expand({kBatch, 1, queries, keys});
}

TEST(MaskInfo, MatricesFollowTheRules) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    c.mask.validate(kBatch, c.queries, c.keys);
    EXPECT_TRUE(at::equal(whole(c.mask, c.queries, c.keys), by_hand(c.mask, c.queries, c.keys)));
  }
}

TEST(MaskInfo, AdditiveIsZeroWhereSeenAndMinusInfinityElsewhere) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor additive = c.mask.to_additive(c.queries, c.keys, at::kCPU, bfloat16);
    EXPECT_EQ(additive.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(additive.eq(0).expand({kBatch, 1, c.queries, c.keys}), by_hand(c.mask, c.queries, c.keys)));
    EXPECT_TRUE(at::equal(additive.eq(0), at::isinf(additive).logical_not()));
  }
}

TEST(MaskInfo, SlicesAreSlicesOfTheMatrix) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor all = by_hand(c.mask, c.queries, c.keys);
    for (int64_t q = 0; q < c.queries; ++q) {
      for (int64_t k = 0; k < c.keys; ++k) {
        const int64_t q_count = c.queries - q, k_count = std::min<int64_t>(3, c.keys - k);
        const MaskInfo part = c.mask.slice(c.queries, c.keys, q, q_count, k, k_count);
        EXPECT_TRUE(at::equal(whole(part, q_count, k_count), all.narrow(2, q, q_count).narrow(3, k, k_count)));
      }
    }
  }
}

TEST(MaskInfo, KeyRangesContainAllVisibleKeys) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor all = by_hand(c.mask, c.queries, c.keys);
    for (int64_t q = 0; q < c.queries; ++q) {
      const auto range = c.mask.key_range(c.queries, c.keys, q, 1);
      Tensor outside = all.select(2, q).clone();
      if (range.begin < range.end) outside.narrow(2, range.begin, range.end - range.begin).zero_();
      EXPECT_FALSE(outside.any().item<bool>());
    }
  }
}

TEST(MaskInfo, KeyRangesAreTight) {
  MaskInfo mask;
  mask.sliding_window = 3;
  const auto range = mask.key_range(8, 8, 4, 2);
  EXPECT_EQ(range.begin, 2);
  EXPECT_EQ(range.end, 6);
}

TEST(MaskInfo, FindsQueriesWithoutVisibleKeys) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor want = by_hand(c.mask, c.queries, c.keys).any(-1, true).logical_not();
    const Tensor blind = c.mask.blind_queries(c.queries, c.keys, at::kCPU);
    EXPECT_TRUE(at::equal(blind.defined() ? blind.expand_as(want) : at::zeros_like(want), want));
  }
  EXPECT_FALSE(MaskInfo().blind_queries(4, 4, at::kCPU).defined());
}

TEST(MaskInfo, FastPathsAreRightAboutTheMatrix) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor all = by_hand(c.mask, c.queries, c.keys);
    if (c.mask.sees_everything(c.queries, c.keys)) {
      EXPECT_TRUE(all.all().item<bool>());
    }
    if (c.mask.is_plain_causal(c.queries, c.keys)) {
      EXPECT_TRUE(at::equal(all, at::ones({c.queries, c.keys}, at::kBool).tril().expand_as(all)));
    }
  }
}

TEST(MaskInfo, FastPathsAreUsedWherePossible) {
  EXPECT_TRUE(MaskInfo().is_plain_causal(5, 5));
  EXPECT_FALSE(MaskInfo().is_plain_causal(4, 5));
  EXPECT_TRUE(MaskInfo().sees_everything(1, 9));
  EXPECT_FALSE(MaskInfo().sees_everything(2, 9));
  MaskInfo window;
  window.sliding_window = 5;
  EXPECT_TRUE(window.is_plain_causal(5, 5));
  EXPECT_FALSE(window.is_plain_causal(6, 6));
  EXPECT_TRUE(window.sees_everything(1, 5));
  EXPECT_FALSE(window.sees_everything(1, 6));
  MaskInfo cache;
  cache.q_offset = 3;
  EXPECT_FALSE(cache.sees_everything(1, 9));
}

TEST(MaskInfo, SimplifiedDropsWhatHidesNothing) {
  MaskInfo mask;
  mask.padding_mask = at::ones({2, 4}, at::kLong);
  mask.q_segment_ids = at::zeros({2, 4}, at::kLong);
  EXPECT_TRUE(mask.simplified().is_plain_causal(4, 4));
  mask.padding_mask[0][0] = 0;
  EXPECT_TRUE(mask.simplified().padding_mask.defined());
  mask.q_segment_ids[1][2] = 1;
  EXPECT_TRUE(mask.simplified().q_segment_ids.defined());
  mask.q_segment_ids.fill_(-1);
  EXPECT_TRUE(mask.simplified().q_segment_ids.defined()) << "negative means padding: it hides everything";
}

TEST(MaskInfo, PaddingAndSegmentsAreDocuments) {
  const auto documents_of = [](const MaskInfo& mask) { return mask.documents(2, 6, 6, at::kCPU); };
  MaskInfo mask;
  EXPECT_EQ(documents_of(mask), nullptr);
  mask.q_segment_ids = at::tensor({0, 0, 3, 3, 3, 1, 5, 5, -1, -1, -1, -2}, at::kLong).view({2, 6});
  const auto packed = documents_of(mask);
  EXPECT_TRUE(packed->begins.equal(at::tensor({0, 2, 5, 6, 8, 12}, at::kInt)));
  EXPECT_EQ(packed->longest, 4);
  EXPECT_TRUE(packed->hidden.equal(mask.q_segment_ids.lt(0)));
  EXPECT_EQ(documents_of(mask), packed);  // found once for all layers
  mask.sliding_window = 2;
  EXPECT_EQ(documents_of(mask), packed);
  mask.padding_mask = at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).view({1, 6}).expand({2, 6});
  EXPECT_TRUE(documents_of(mask)->begins.equal(at::tensor({0, 2, 5, 6, 8, 12}, at::kInt)));

  MaskInfo padding;
  padding.padding_mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 6});
  EXPECT_TRUE(documents_of(padding)->begins.equal(at::tensor({0, 2, 6, 12}, at::kInt)));
  padding.padding_mask = at::ones({2, 6}, at::kBool);
  EXPECT_FALSE(documents_of(padding)->hidden.defined());
  padding.q_segment_ids = at::tensor({0, 1, 0, 2, 2, 2}, at::kLong).view({1, 6});
  EXPECT_EQ(documents_of(padding), nullptr);  // in two pieces
  EXPECT_EQ(mask.documents(2, 6, 7, at::kCPU), nullptr);
}

TEST(MaskInfo, CopiesShareTheMatrix) {
  MaskInfo mask;
  mask.sliding_window = 2;
  const MaskInfo copy = mask;
  EXPECT_TRUE(mask.to_bool(4, 4, at::kCPU).is_same(copy.to_bool(4, 4, at::kCPU)));
  EXPECT_TRUE(mask.to_additive(4, 4, at::kCPU, float32).is_same(copy.to_additive(4, 4, at::kCPU, float32)));
}

TEST(MaskInfo, MatrixIsRecomputedWhenAFieldOrATensorChanges) {
  MaskInfo mask;
  mask.padding_mask = at::ones({1, 4}, at::kLong);
  const Tensor before = mask.to_bool(4, 4, at::kCPU);
  EXPECT_TRUE(before[0][0][3][0].item<bool>());
  mask.padding_mask[0][0] = 0;
  EXPECT_FALSE(mask.to_bool(4, 4, at::kCPU)[0][0][3][0].item<bool>());
  mask.padding_mask = at::ones({1, 4}, at::kLong);
  EXPECT_TRUE(mask.to_bool(4, 4, at::kCPU)[0][0][3][0].item<bool>());
  mask.sliding_window = 1;
  EXPECT_FALSE(mask.to_bool(4, 4, at::kCPU)[0][0][3][0].item<bool>());
}

TEST(MaskInfo, RejectsMismatchedTensors) {
  MaskInfo mask;
  mask.padding_mask = at::ones({2, 5}, at::kLong);
  EXPECT_THAT([&] { mask.validate(2, 4, 4); },
              ThrowsMessage<ShapeError>("[MaskInfo] padding_mask must be [2, 4]; got [2, 5]."));
  mask.padding_mask = at::ones({2, 4});
  EXPECT_THAT([&] { mask.validate(2, 4, 4); },
              ThrowsMessage<ShapeError>("[MaskInfo] padding_mask must be of a bool or integer type; got float32."));
  mask = {};
  mask.sliding_window = -1;
  EXPECT_THAT([&] { mask.validate(2, 4, 4); },
              ThrowsMessage<ConfigError>("[MaskInfo] sliding_window must not be negative; got -1."));
  mask = {};
  mask.kv_segment_ids = at::zeros({2, 4}, at::kLong);
  EXPECT_THAT([&] { mask.validate(2, 4, 4); },
              ThrowsMessage<ShapeError>("[MaskInfo] kv_segment_ids need q_segment_ids; got none."));
  mask = {};
  mask.q_segment_ids = at::zeros({2, 1}, at::kLong);
  EXPECT_THAT([&] { mask.validate(2, 1, 4); },
              ThrowsMessage<ShapeError>(
                  "[MaskInfo] without kv_segment_ids there must be as many keys as queries; got 1 queries and 4 "
                  "keys. Set kv_segment_ids."));
  mask = {};
  mask.explicit_mask = at::ones({2, 4, 4}, at::kBool);
  EXPECT_THAT(
      [&] { mask.validate(2, 4, 4); },
      ThrowsMessage<ShapeError>("[MaskInfo] explicit_mask must be bool and broadcast to [2, heads, 4, 4]; got bool "
                                "[2, 4, 4]."));
}

}  // namespace
}  // namespace easydel
