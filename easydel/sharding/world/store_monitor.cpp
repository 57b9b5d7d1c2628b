#include "easydel/sharding/world/store_monitor.h"

#include <algorithm>
#include <sstream>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collective_call.h"

namespace easydel {
namespace {

using Clock = std::chrono::steady_clock;

std::string beat_key(int64_t rank) { return concat("beat/", rank); }

// "12\nfsdp:0,1 7\n": the heartbeats so far, then for each group the collectives that the rank has entered.
struct Beat {
  uint64_t beats = 0;
  std::map<std::string, uint64_t> entered;
};

Beat parse_beat(const std::string& text) {
  std::istringstream in(text);
  Beat beat;
  in >> beat.beats;
  std::string key;
  uint64_t entered = 0;
  while (in >> key >> entered) beat.entered[key] = entered;
  return beat;
}

}  // namespace

std::string WatchedGroup::key() const {
  std::string text = name + ":";
  for (const int64_t rank : ranks) text += std::to_string(rank) + ",";
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

std::string WatchedGroup::where(const std::string& what) const {
  return concat("[", what, "] group \"", name, "\" of ", describe_ranks(ranks), ": ");
}

StoreMonitor::StoreMonitor(c10::intrusive_ptr<c10d::Store> store, int64_t rank, std::chrono::milliseconds timeout,
                           OnFailure on_failure)
    : store_(std::move(store)),
      rank_(rank),
      timeout_(timeout),
      period_(std::clamp(timeout / 10, std::chrono::milliseconds(20), std::chrono::milliseconds(5000))),
      on_failure_(std::move(on_failure)),
      thread_([this] { run(); }) {}

StoreMonitor::~StoreMonitor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void StoreMonitor::watch(std::shared_ptr<WatchedGroup> group, uint64_t number, const char* what,
                         c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(mutex_);
  groups_.try_emplace(group->key(), group);
  watched_.remove_if([](const Watched& old) { return old.work->isCompleted(); });
  watched_.push_back({std::move(group), number, what, std::move(work), Clock::now()});
}

void StoreMonitor::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, period_, [&] { return stopping_; })) {
    lock.unlock();
    std::string failure;
    try {
      beat();
      failure = look();
    } catch (const c10::Error& error) {
      failure = concat("[World] rank ", rank_, " cannot reach the store of rank 0: ", error.what_without_backtrace());
    }
    if (!failure.empty()) return on_failure_(failure);
    lock.lock();
  }
}

void StoreMonitor::beat() {
  std::ostringstream text;
  text << ++beats_ << '\n';
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, group] : groups_) text << key << ' ' << group->entered.load() << '\n';
  }
  store_->set(beat_key(rank_), text.str());
}

std::string StoreMonitor::look() {
  if (store_->check({kFailureKey})) return store_->get_to_str(kFailureKey);
  std::optional<Watched> late;
  {
    const std::lock_guard lock(mutex_);
    watched_.remove_if([](const Watched& old) { return old.work->isCompleted(); });
    if (!watched_.empty() && Clock::now() - watched_.front().since > timeout_) late = watched_.front();
  }
  if (!late) return "";
  const std::string failure = diagnose(*late);
  store_->set(kFailureKey, failure);
  return failure;
}

std::string StoreMonitor::diagnose(const Watched& watched) {
  const auto read = [&](int64_t rank) {
    return store_->check({beat_key(rank)}) ? parse_beat(store_->get_to_str(beat_key(rank))) : Beat();
  };
  std::map<int64_t, Beat> before;
  for (const int64_t rank : watched.group->ranks) before[rank] = read(rank);
  std::this_thread::sleep_for(3 * period_);
  std::string culprits;
  for (const int64_t rank : watched.group->ranks) {
    if (rank == rank_) continue;
    const Beat beat = read(rank);
    const auto entered = beat.entered.find(watched.group->key());
    const bool arrived = entered != beat.entered.end() && entered->second > watched.number;
    const char* verdict = beat.beats == before[rank].beats ? " does not respond: it has died" : " has not arrived";
    if (!arrived || beat.beats == before[rank].beats) {
      culprits += concat(culprits.empty() ? "" : "; ", "rank ", rank, verdict);
    }
  }
  if (culprits.empty()) culprits = "all have arrived, but it does not complete";
  return concat(watched.group->where(watched.what), "no result after ", std::chrono::duration<double>(timeout_).count(),
                " s; ", culprits, ". EASYDEL_TIMEOUT sets the limit in seconds.");
}

}  // namespace easydel
