#include "easydel/trainers/rewards/running_scores.h"

#include <numeric>
#include <system_error>
#include <utility>

#include "easydel/core/error.h"

namespace easydel {
namespace {

void require_all(const Reward& reward, const RewardScores& scores, std::size_t count) {
  require<ConfigError>(scores.size() == count, "[rewards] ", reward.name(), " must give ", count, " scores; got ",
                       scores.size(), ".");
}

}  // namespace

RunningScores::RunningScores(const std::vector<std::unique_ptr<Reward>>& rewards, std::size_t prompts,
                             std::size_t group)
    : rewards_(rewards), group_(group), scores_(rewards.size()), is_added_(prompts * group, false) {
  const std::size_t count = prompts * group;
  for (std::size_t r = 0; r < rewards.size(); ++r) {
    const RewardLanes lanes = rewards[r]->lanes();
    if (lanes.count == 0) continue;
    const bool is_whole = lanes.unit == RewardLanes::Unit::Rollout,
               is_single = lanes.unit == RewardLanes::Unit::Completion;
    const std::size_t of_unit = is_whole ? count : is_single ? 1 : group;
    Asked& asked = asked_.emplace_back();
    asked.reward = r;
    asked.first_lane = lanes_.size();
    asked.of_unit = of_unit;
    asked.lanes = lanes;
    for (std::size_t first = 0; first < count; first += of_unit) {
      Unit& unit = asked.growing.emplace_back();
      unit.inputs.resize(of_unit);
      unit.places.resize(of_unit);
      std::iota(unit.places.begin(), unit.places.end(), first);
      unit.missing = of_unit;
    }
    for (std::size_t i = 0; i < lanes.count; ++i) {
      Lane& lane = lanes_.emplace_back();
      lane.reward = r;
      lane.index = i;
    }
    scores_[r].resize(count);
    missing_ += count;
    if (!is_whole) early_ += count, early_missing_ += count;
  }
  try {
    for (Lane& lane : lanes_) lane.thread = std::thread([this, &lane] { run(lane); });
  } catch (const std::system_error& error) {
    stop();
    fail<IoError>("[rewards] ", lanes_.size(), " workers cannot be started: ", error.what(), ". Set fewer workers.");
  }
}

RunningScores::~RunningScores() { stop(); }

void RunningScores::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (Lane& lane : lanes_) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

void RunningScores::add(std::size_t index, RewardInput input) {
  {
    const std::lock_guard lock(mutex_);
    if (is_added_.at(index)) return;
    is_added_[index] = true;
    for (Asked& asked : asked_) put(asked, index, input);
  }
  changed_.notify_all();
}

// The caller holds the lock.
void RunningScores::put(Asked& asked, std::size_t index, const RewardInput& input) {
  Unit& unit = asked.growing[index / asked.of_unit];
  unit.inputs[index % asked.of_unit] = input;
  if (--unit.missing > 0) return;
  lanes_[asked.first_lane + asked.ended++ % asked.lanes.count].waiting.push_back(std::move(unit));
}

void RunningScores::run(Lane& lane) {
  Reward& reward = *rewards_[lane.reward];
  while (true) {
    Unit unit;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stops_ || !lane.waiting.empty(); });
      if (stops_) return;
      unit = std::move(lane.waiting.front());
      lane.waiting.pop_front();
    }
    try {
      const RewardScores found = reward.score_on(lane.index, unit.inputs);
      require_all(reward, found, unit.inputs.size());
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < found.size(); ++i) scores_[lane.reward][unit.places[i]] = found[i];
      missing_ -= found.size();
      if (reward.lanes().unit != RewardLanes::Unit::Rollout) early_missing_ -= found.size();
      if (missing_ > 0) continue;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      has_failed_ = stops_ = true;
    }
    changed_.notify_all();
  }
}

void RunningScores::check() const {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

std::optional<double> RunningScores::share_done() const {
  const std::lock_guard lock(mutex_);
  if (early_ == 0) return std::nullopt;
  return 1 - static_cast<double>(early_missing_) / static_cast<double>(early_);
}

std::vector<RewardScores> RunningScores::finish(const std::vector<RewardInput>& inputs) {
  for (std::size_t r = 0; r < rewards_.size(); ++r) {
    check();
    if (rewards_[r]->lanes().count > 0) continue;
    scores_[r] = rewards_[r]->score(inputs);
    require_all(*rewards_[r], scores_[r], inputs.size());
  }
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return missing_ == 0 || error_; });
  }
  check();
  return std::move(scores_);
}

}  // namespace easydel
