#include <thread>

#include "easydel/sharding/world/thread_group.h"

namespace easydel {
namespace {

// A wake-up costs about as much as a small collective. With a core for each rank the others are about to arrive, so
// waiters spin for a while; with fewer, spinning would keep the awaited rank off its core, so they yield at once.
Patience patience_for(int64_t size) {
  if (size <= static_cast<int64_t>(std::thread::hardware_concurrency())) return {.spins = 200, .yields = 50};
  return {.yields = 5};
}

}  // namespace

ThreadWorldState::ThreadWorldState(int64_t size, const WorldOptions& options)
    : options_(options), patience_(patience_for(size)), ended_(size), places_(size) {}

std::shared_ptr<ThreadGroup> ThreadWorldState::group(const std::string& name, std::span<const int64_t> ranks) {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> members(ranks.begin(), ranks.end());
  std::shared_ptr<ThreadGroup>& group = groups_[{name, members}];
  if (!group) {
    group = std::make_shared<ThreadGroup>(name, std::move(members), *this);
    if (failure_) group->fail();
  }
  return group;
}

void ThreadWorldState::fail(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = message;
  for (const auto& [key, group] : groups_) group->fail();
}

std::string ThreadWorldState::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_.value_or("");
}

void ThreadWorldState::end(int64_t rank) {
  ended_[rank].store(true);
  std::string message;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, group] : groups_) {
      const std::vector<int64_t> waiting = group->waits_for(rank);
      if (waiting.empty()) continue;
      message = "rank " + std::to_string(rank) + " has finished, but " + describe_ranks(waiting) +
                (waiting.size() == 1 ? " is waiting" : " are waiting") + " for it in group \"" + key.first +
                "\". Every member must call the same collectives.";
    }
  }
  if (!message.empty()) fail(message);
}

std::string ThreadWorldState::place(int64_t rank) const {
  const std::lock_guard lock(mutex_);
  return places_[rank];
}

void ThreadWorldState::set_place(int64_t rank, std::string place) {
  const std::lock_guard lock(mutex_);
  places_[rank] = std::move(place);
}

}  // namespace easydel
