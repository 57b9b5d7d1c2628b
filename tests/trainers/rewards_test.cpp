// What completions are worth, and the advantages that follow from it.
#include "easydel/trainers/rewards/reward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/trainers/objectives/advantages.h"
#include "easydel/trainers/rewards/builtin_rewards.h"
#include "easydel/trainers/rewards/running_scores.h"

namespace easydel {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<RewardScores> score_all(const std::vector<std::unique_ptr<Reward>>& rewards,
                                    const std::vector<RewardInput>& inputs) {
  RunningScores running(rewards, inputs.size(), 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) running.add(i, inputs[i]);
  return running.finish(inputs);
}

double score_one(const Json& reward, const std::string& completion, const Json& row = {}, int64_t tokens = 0) {
  const auto rewards = make_rewards(reward);
  const RewardInput input{.prompt = "p", .completion = completion, .row = &row, .tokens = tokens};
  return score_all(rewards, {input}).at(0).at(0).value();
}

TEST(Rewards, FindTheNumberOfAnAnswer) {
  EXPECT_EQ(number_in_answer("so it is 1,234.5."), 1234.5);
  EXPECT_EQ(number_in_answer("3 + 4 = 7, I think"), 7);
  EXPECT_EQ(number_in_answer("it is -12"), -12);
  EXPECT_EQ(number_in_answer("\\boxed{42} and not 43"), 42);
  EXPECT_EQ(number_in_answer("\\boxed{x} or 9"), 9);
  EXPECT_EQ(number_in_answer("none"), std::nullopt);
  EXPECT_EQ(number_in_answer("."), std::nullopt);
}

TEST(Rewards, CompareWithTheRow) {
  const Json row = Json::object({{"answer", "  12 "}, {"other", 7}});
  EXPECT_EQ(score_one("exact", "12\n", row), 1);
  EXPECT_EQ(score_one("exact", "12.", row), 0);
  EXPECT_EQ(score_one("exact=other", "7", row), 1);
  EXPECT_EQ(score_one("numeric", "5 + 7 = 12.0", row), 1);
  EXPECT_EQ(score_one("numeric", "12 or 13", row), 0);
  EXPECT_EQ(score_one(Json::object({{"type", "numeric"}, {"field", "other"}}), "7", row), 1);
  EXPECT_THAT([&] { score_one("exact=missing", "x", row); }, ThrowsMessage<FormatError>(HasSubstr("\"missing\"")));
}

TEST(Rewards, LookAtTheCompletionAlone) {
  EXPECT_EQ(score_one("regex=[0-9]+", "a 1"), 1);
  EXPECT_EQ(score_one("regex=[0-9]+", "a"), 0);
  EXPECT_EQ(score_one("format", "<think>\nwell\n</think>\n12"), 1);
  EXPECT_EQ(score_one("format", "<think>well</think>"), 0);
  EXPECT_EQ(score_one("format=a+", "aab"), 0);
  EXPECT_EQ(score_one("json", " {\"a\": 1} "), 1);
  EXPECT_EQ(score_one("json", "{a}"), 0);
  EXPECT_EQ(score_one(Json::object({{"type", "json"}, {"required", Json::array({"b"})}}), "{\"a\": 1}"), 0);
  EXPECT_EQ(score_one("length=4", "", {}, 4), 1);
  EXPECT_EQ(score_one("length=4", "", {}, 3), 0.75);
  EXPECT_EQ(score_one("length=4", "", {}, 12), 0);
  EXPECT_EQ(score_one("repetition=1", "a b a a"), -0.5);
  EXPECT_EQ(score_one("random", "x"), score_one("random", "x"));
  EXPECT_NE(score_one("random", "x"), score_one("random", "y"));
}

TEST(Rewards, RefuseWhatTheyDoNotKnow) {
  const auto refused = [](const Json& reward, const std::string& message) {
    EXPECT_THAT([&] { make_rewards(reward); }, ThrowsMessage<ConfigError>(HasSubstr(message))) << reward.dump();
  };
  refused("exactly", "\"exactly\" is unknown; known: exact, numeric");
  refused(Json::object({{"type", "exact"}, {"feild", "a"}}), "feild is not a setting of exact; known: field, weight.");
  refused("json=x", "\"json\" takes no value");
  refused("length", "length needs target");
  refused("length=-1", "target of length must be positive; got -1.");
  refused(Json::array({3}), "a reward is a name, or an object with a type; got 3.");
  refused("reward_model", "reward_model needs a model");
  refused(Json::object({{"type", "command"}, {"command", "cat"}, {"timeout", 0}}), "timeout and workers");
  const auto server = [](const std::string& key, const Json& value) {
    return Json::object({{"type", "http"}, {"url", "http://127.0.0.1:1/"}, {key, value}});
  };
  refused(server("batch", "all"), "[rewards] batch of http must be \"group\" or \"rollout\"; got \"all\".");
  refused(server("workers", 0), "[rewards] workers of http must be from 1 to 256; got 0.");
  refused(server("workers", 1000), "[rewards] workers of http must be from 1 to 256; got 1000.");
  EXPECT_TRUE(make_rewards(Json()).empty());
}

TEST(Rewards, OfAFunctionMustBeAsManyAsCompletions) {
  std::vector<std::unique_ptr<Reward>> rewards;
  rewards.push_back(make_function_reward("mine", [](const auto&) { return RewardScores{1.0}; }));
  EXPECT_THAT([&] { score_all(rewards, std::vector<RewardInput>(2)); },
              ThrowsMessage<ConfigError>("[rewards] mine must give 2 scores; got 1."));
}

TEST(Advantages, AreMeasuredWithinAGroup) {
  const double none = std::nan("");
  const std::vector<double> rewards{1, 0, 1, none, 2, 2, 2, 2};
  const double deviation = std::sqrt(1.0 / 3);
  const Advantages group = group_advantages(rewards, 4, "group");
  EXPECT_THAT(group.values, ElementsAre(DoubleNear(1.0 / 3 / (deviation + 1e-4), 1e-12),
                                        DoubleNear(-2.0 / 3 / (deviation + 1e-4), 1e-12),
                                        DoubleNear(1.0 / 3 / (deviation + 1e-4), 1e-12), 0, 0, 0, 0, 0));
  EXPECT_EQ(group.zero_deviation_share, 0.5);
  EXPECT_NEAR(group_advantages(rewards, 4, "none").values[1], -2.0 / 3, 1e-12);
  EXPECT_NEAR(group_advantages(rewards, 4, "batch").values[1], -2.0 / 3 / (deviation_of(rewards) + 1e-4), 1e-12);
  const Advantages others = leave_one_out_advantages(rewards, 4, false);
  EXPECT_THAT(others.values, ElementsAre(0.5, -1, 0.5, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace easydel
