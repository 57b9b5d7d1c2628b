// The scores of a rollout, from rewards of which some are asked while completions are still written.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "easydel/trainers/rewards/reward.h"

namespace easydel {

// Rewards with lanes are asked by threads. What a lane is asked, and in which order, depends on the order in which
// completions are added alone, not on the clock.
class RunningScores {
 public:
  // Of `prompts` times `group` completions, those of a prompt together. The rewards outlive the object.
  RunningScores(const std::vector<std::unique_ptr<Reward>>& rewards, std::size_t prompts, std::size_t group);
  // What nobody was asked yet is not asked any more; waits for those that were.
  ~RunningScores();
  RunningScores(const RunningScores&) = delete;
  RunningScores& operator=(const RunningScores&) = delete;

  // Thread-safe, and does nothing for a completion that was added before. Rows must outlive the object.
  void add(std::size_t index, RewardInput input);
  // Whether a reward has failed: the others are not asked any more, and check() throws what it threw.
  bool has_failed() const { return has_failed_; }
  void check() const;
  // The share of the scores that are there, of rewards with lanes that are not asked about all of a rollout; nothing
  // without such rewards.
  std::optional<double> share_done() const;
  // All scores of each reward, of inputs that were added: the other rewards are asked now, on this thread. ConfigError
  // for a reward that gives another number of scores.
  std::vector<RewardScores> finish(const std::vector<RewardInput>& inputs);

 private:
  struct Unit {
    std::vector<std::size_t> places;
    std::vector<RewardInput> inputs;
    std::size_t missing = 0;
  };
  struct Lane {
    std::size_t reward = 0, index = 0;
    std::deque<Unit> waiting;
    std::thread thread;
  };
  // Of one reward with lanes.
  struct Asked {
    std::size_t reward = 0, first_lane = 0, of_unit = 0;
    std::size_t ended = 0;  // units
    RewardLanes lanes;
    std::vector<Unit> growing;
  };

  void put(Asked& asked, std::size_t index, const RewardInput& input);
  void run(Lane& lane);
  void stop();

  const std::vector<std::unique_ptr<Reward>>& rewards_;
  std::size_t group_;
  std::vector<Asked> asked_;
  std::deque<Lane> lanes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RewardScores> scores_;
  std::vector<bool> is_added_;
  std::size_t missing_ = 0;                    // scores of rewards with lanes
  std::size_t early_ = 0, early_missing_ = 0;  // those of rewards that are not asked about all of a rollout
  bool stops_ = false;
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr error_;
};

}  // namespace easydel
