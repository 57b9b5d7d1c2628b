#include "easydel/sharding/mesh/partition_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::StartsWith;
using testing::Throws;
using testing::ThrowsMessage;

TEST(PartitionRules, UseTheFirstThatMatchesAnywhereInThePath) {
  const PartitionRules rules{
      {"q_proj\\.weight$", {"tp", "fsdp"}},
      {"layers\\.0\\.", {"sp"}},
      {"proj", {"ep"}},
  };

  EXPECT_EQ(rules.match("model.layers.0.self_attn.q_proj.weight"), (PartitionSpec{"tp", "fsdp"}));
  EXPECT_EQ(rules.match("model.layers.0.self_attn.q_proj.bias"), PartitionSpec{"sp"});
  EXPECT_EQ(rules.match("model.layers.1.self_attn.k_proj.weight"), PartitionSpec{"ep"});
  EXPECT_EQ(rules.find("model.layers.1.self_attn.k_proj.weight"), 2u);
  EXPECT_EQ(rules.find("model.norm.weight"), std::nullopt);
}

TEST(PartitionRules, SupportLookahead) {
  const PartitionRules rules{{"^(?!.*(?:norm|lm_head)).*$", {"tp"}}, {".*", {}}};

  EXPECT_EQ(rules.match("model.layers.0.mlp.up_proj.weight"), PartitionSpec{"tp"});
  EXPECT_EQ(rules.match("model.norm.weight"), PartitionSpec());
}

TEST(PartitionRules, NameTheParameterThatNoneMatches) {
  const PartitionRules rules{{"q_proj", {"tp"}}, {"k_proj", {"tp"}}};

  EXPECT_THAT(
      [&] { rules.match("model.norm.weight"); },
      ThrowsMessage<ConfigError>("[PartitionRules] every parameter must match a rule; none of 2 matches "
                                 "\"model.norm.weight\". Add a last rule \".*\" with P() to replicate the rest."));
  EXPECT_THAT([] { PartitionRules().match("x"); }, Throws<ConfigError>());
}

TEST(PartitionRules, NameTheRuleThatIsNotARegularExpression) {
  // The words in brackets are the standard library's.
  EXPECT_THAT(([] { PartitionRules{{"q_proj", {"tp"}}, {"k_(proj", {"tp"}}}; }),
              ThrowsMessage<ConfigError>(
                  StartsWith("[PartitionRules] rule 2 must be a regular expression; got \"k_(proj\" (")));
}

TEST(PartitionRules, AreEqualWhenTheirRulesAre) {
  const PartitionRules rules{{"a", {"tp"}}};
  EXPECT_EQ(rules, (PartitionRules{{"a", {"tp"}}}));
  EXPECT_NE(rules, (PartitionRules{{"a", {"sp"}}}));
  EXPECT_NE(rules, PartitionRules());
}

}  // namespace
}  // namespace easydel
