// A program that is started once and judges completions: a line of JSON in, a line with a number or null out.
#include <algorithm>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/trainers/rewards/builtin_rewards.h"
#include "easydel/trainers/rewards/line_process.h"

namespace easydel {
namespace {

RewardScores ask(LineProcess& process, const std::vector<RewardInput>& inputs, std::size_t begin, std::size_t end,
                 double timeout) {
  std::vector<std::string> lines;
  for (std::size_t i = begin; i < end; ++i) lines.push_back(to_reward_request(inputs[i]).dump());
  RewardScores scores;
  process.ask(lines, timeout, [&](const std::string& line) {
    try {
      scores.push_back(score_of(Json::parse(line), process.name()));
    } catch (const FormatError&) {
      process.give_up(concat("must return a number or null for each completion; got \"", line.substr(0, 200), "\""));
    }
  });
  return scores;
}

class CommandReward final : public Reward {
 public:
  explicit CommandReward(RewardSettings& settings)
      : command_(settings.words("command")),
        timeout_(settings.number("timeout", 10)),
        workers_(static_cast<std::size_t>(std::max(settings.number("workers", 1), 0.0))) {
    require<ConfigError>(timeout_ > 0 && workers_ > 0, "[rewards] timeout and workers of command must be positive.");
  }
  std::string name() const override { return "command"; }
  bool is_elsewhere() const override { return true; }

  RewardScores score(const std::vector<RewardInput>& inputs) override {
    while (processes_.size() < workers_) processes_.push_back(std::make_unique<LineProcess>("[rewards]", command_));
    const std::size_t each = (inputs.size() + workers_ - 1) / workers_;
    std::vector<RewardScores> parts(workers_);
    std::vector<std::exception_ptr> errors(workers_);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < workers_; ++i) {
      threads.emplace_back([&, i] {
        try {
          const std::size_t begin = std::min(inputs.size(), i * each), end = std::min(inputs.size(), begin + each);
          parts[i] = ask(*processes_[i], inputs, begin, end, timeout_);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (!error) continue;
      processes_.clear();
      std::rethrow_exception(error);
    }
    RewardScores all;
    for (const RewardScores& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

 private:
  std::vector<std::string> command_;
  double timeout_;
  std::size_t workers_;
  std::vector<std::unique_ptr<LineProcess>> processes_;
};

}  // namespace

std::unique_ptr<Reward> make_command_reward(RewardSettings& settings) {
  return std::make_unique<CommandReward>(settings);
}

}  // namespace easydel
