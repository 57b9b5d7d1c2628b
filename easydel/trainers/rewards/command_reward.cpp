// A program that is started once and judges completions: a line of JSON in, a line with a number or null out.
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/trainers/rewards/builtin_rewards.h"
#include "easydel/trainers/rewards/line_process.h"

namespace easydel {
namespace {

class CommandReward final : public Reward {
 public:
  explicit CommandReward(RewardSettings& settings)
      : command_(settings.words("command")),
        timeout_(settings.number("timeout", 10)),
        workers_(static_cast<std::size_t>(std::max(settings.number("workers", 1), 0.0))) {
    require<ConfigError>(timeout_ > 0 && workers_ > 0, "[rewards] timeout and workers of command must be positive.");
    require<ConfigError>(workers_ <= kMaxRewardWorkers, "[rewards] workers of command must be at most ",
                         kMaxRewardWorkers, "; got ", workers_, ".");
    processes_.resize(workers_);
  }
  std::string name() const override { return "command"; }
  RewardLanes lanes() const override { return {.count = workers_, .unit = RewardLanes::Unit::Completion}; }

  RewardScores score(const std::vector<RewardInput>& inputs) override { return score_on(0, inputs); }
  RewardScores score_on(std::size_t lane, const std::vector<RewardInput>& inputs) override {
    std::unique_ptr<LineProcess>& process = processes_[lane];
    if (!process) process = std::make_unique<LineProcess>("[rewards]", command_);
    std::vector<std::string> lines;
    for (const RewardInput& input : inputs) lines.push_back(to_reward_request(input).dump());
    RewardScores scores;
    try {
      process->ask(lines, timeout_, [&](const std::string& line) {
        try {
          scores.push_back(score_of(Json::parse(line), process->name()));
        } catch (const FormatError&) {
          process->give_up(
              concat("must return a number or null for each completion; got \"", line.substr(0, 200), "\""));
        }
      });
    } catch (...) {
      process.reset();  // another time begins with another program
      throw;
    }
    return scores;
  }

 private:
  std::vector<std::string> command_;
  double timeout_;
  std::size_t workers_;
  std::vector<std::unique_ptr<LineProcess>> processes_;  // of each lane, once it was asked
};

}  // namespace

std::unique_ptr<Reward> make_command_reward(RewardSettings& settings) {
  return std::make_unique<CommandReward>(settings);
}

}  // namespace easydel
