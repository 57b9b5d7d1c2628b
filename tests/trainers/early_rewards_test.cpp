// Rewards that are asked while completions are still written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "easydel/core/error.h"
#include "easydel/trainers/rewards/running_scores.h"
#include "easydel/trainers/rollouts/rollouts.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/word_tokenizer.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::ThrowsMessage;
using Unit = RewardLanes::Unit;

// Judges on threads of its own, and keeps what each lane was asked.
class Judge final : public Reward {
 public:
  explicit Judge(RewardLanes lanes) : asked(lanes.count), lanes_(lanes) {}
  std::string name() const override { return "judge"; }
  RewardLanes lanes() const override { return lanes_; }
  RewardScores score(const std::vector<RewardInput>&) override { throw Error("nobody asks it as a whole"); }
  RewardScores score_on(std::size_t lane, const std::vector<RewardInput>& inputs) override {
    std::vector<std::string> unit;
    RewardScores scores;
    for (const RewardInput& input : inputs) {
      unit.push_back(input.completion);
      scores.emplace_back(std::stod(input.completion));
      if (input.completion == fails_at) throw IoError("[rewards] it fails");
    }
    asked[lane].push_back(unit);
    if (before_answer) before_answer();
    return scores;
  }

  std::vector<std::vector<std::vector<std::string>>> asked;
  std::string fails_at;
  std::function<void()> before_answer;

 private:
  RewardLanes lanes_;
};

RewardInput input(std::size_t number) { return {.prompt = "", .completion = std::to_string(number)}; }

// Completions 0 to 5, two of each prompt, in the order in which they end.
std::vector<RewardScores> score(const std::vector<std::unique_ptr<Reward>>& rewards) {
  RunningScores running(rewards, 3, 2);
  for (const std::size_t i : {3, 0, 5, 2, 4, 1}) running.add(i, input(i));
  std::vector<RewardInput> inputs;
  for (std::size_t i = 0; i < 6; ++i) inputs.push_back(input(i));
  for (std::size_t i = 0; i < 6; ++i) running.add(i, inputs[i]);  // those that were there change nothing
  return running.finish(inputs);
}

TEST(EarlyRewards, AreAskedInTheOrderInWhichCompletionsEnd) {
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<Judge*> judges;
  for (const RewardLanes lanes : {RewardLanes{2, Unit::Completion}, RewardLanes{1, Unit::Group},
                                  RewardLanes{2, Unit::Group}, RewardLanes{1, Unit::Rollout}})
    judges.push_back(static_cast<Judge*>(rewards.emplace_back(std::make_unique<Judge>(lanes)).get()));
  rewards.push_back(make_function_reward("whole", [](const auto& inputs) { return RewardScores(inputs.size(), 7.0); }));
  const auto scores = score(rewards);
  for (std::size_t r = 0; r < 4; ++r) EXPECT_THAT(scores[r], ElementsAre(0, 1, 2, 3, 4, 5)) << r;
  EXPECT_THAT(scores[4], testing::Each(7.0));
  using Units = std::vector<std::vector<std::string>>;
  EXPECT_THAT(judges[0]->asked, ElementsAre(Units{{"3"}, {"5"}, {"4"}}, Units{{"0"}, {"2"}, {"1"}}));
  EXPECT_THAT(judges[1]->asked, ElementsAre(Units{{"2", "3"}, {"4", "5"}, {"0", "1"}}));
  EXPECT_THAT(judges[2]->asked, ElementsAre(Units{{"2", "3"}, {"0", "1"}}, Units{{"4", "5"}}));
  EXPECT_THAT(judges[3]->asked, ElementsAre(Units{{"0", "1", "2", "3", "4", "5"}}));
}

TEST(EarlyRewards, ThatFailSaySo) {
  std::vector<std::unique_ptr<Reward>> rewards;
  auto judge = std::make_unique<Judge>(RewardLanes{2, Unit::Completion});
  judge->fails_at = "5";
  rewards.push_back(std::move(judge));
  EXPECT_THAT([&] { score(rewards); }, ThrowsMessage<IoError>("[rewards] it fails"));
}

class EarlyRewardsTest : public testing::Test {
 protected:
  EarlyRewardsTest() {
    arguments_.max_completion_length = 6;
    rollouts_ = make_rollouts(tiny_llama(), tokenizer_, arguments_);
  }

  RolloutResult roll_out(CompletionSink* sink) { return rollouts_(kPrompts, kGroup, RandomKey(4), sink); }

  static constexpr int64_t kGroup = 3;
  const std::vector<std::vector<int64_t>> kPrompts{{5, 6, 7}, {8, 9}, {10, 11, 12, 13}};
  RolloutArguments arguments_;
  AutoTokenizer tokenizer_ = testing_support::word_tokenizer();
  RolloutFunction rollouts_;
};

// The engine's thread waits in the first completion until its score is there: a rollout that was scored only after its
// end would never end.
TEST_F(EarlyRewardsTest, GetScoresBeforeTheRolloutEnds) {
  class Sink final : public CompletionSink {
   public:
    explicit Sink(RunningScores& running) : running_(running) {}
    void take(std::size_t prompt, std::size_t index, const Completion& completion) override {
      order.push_back(prompt * kGroup + index);
      running_.add(order.back(), input(order.back()));
      texts[order.back()] = completion.text;
      if (order.size() > 1) return;
      while (*running_.share_done() == 0 && !running_.has_failed()) std::this_thread::yield();
      first_share = *running_.share_done();
    }
    std::vector<std::size_t> order;
    std::map<std::size_t, std::string> texts;
    double first_share = 0;

   private:
    RunningScores& running_;
  };
  std::vector<std::unique_ptr<Reward>> rewards;
  rewards.push_back(std::make_unique<Judge>(RewardLanes{1, Unit::Completion}));
  std::vector<std::vector<std::size_t>> orders;
  for (int round = 0; round < 2; ++round) {
    RunningScores running(rewards, kPrompts.size(), kGroup);
    Sink sink(running);
    const RolloutResult rolled = roll_out(&sink);
    EXPECT_DOUBLE_EQ(sink.first_share, 1.0 / 9);
    EXPECT_EQ(sink.order.size(), 9);
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(sink.texts.at(i), rolled.completions[i / kGroup][i % kGroup].text);
    EXPECT_THAT(running.finish({}), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8)));
    orders.push_back(sink.order);
    const RolloutResult alone = roll_out(nullptr);
    for (std::size_t i = 0; i < 9; ++i) {
      const Completion &a = rolled.completions[i / kGroup][i % kGroup], &b = alone.completions[i / kGroup][i % kGroup];
      EXPECT_EQ(a.ids, b.ids);
      EXPECT_EQ(a.logps, b.logps);
      EXPECT_EQ(a.text, b.text);
    }
  }
  EXPECT_EQ(orders[0], orders[1]);
}

TEST_F(EarlyRewardsTest, EndARolloutWhenTheyFail) {
  class Sink final : public CompletionSink {
   public:
    void take(std::size_t, std::size_t, const Completion&) override { ++completions; }
    bool has_failed() const override { return ++asked > 4; }
    void check() const override {
      if (asked > 4) throw IoError("[rewards] it fails");
    }
    mutable int asked = 0;
    int completions = 0;
  } sink;
  EXPECT_THAT([&] { roll_out(&sink); }, ThrowsMessage<IoError>("[rewards] it fails"));
  EXPECT_LT(sink.completions, 9);
  EXPECT_EQ(roll_out(nullptr).completions.size(), 3);  // the engine goes on
}

}  // namespace
}  // namespace easydel
