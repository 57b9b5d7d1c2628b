#include "easydel/trainers/trackers/tracker_feed.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/log.h"

namespace easydel {

TrackerFeed::TrackerFeed(std::unique_ptr<Tracker> tracker, TrackedRun run, std::stop_source requests,
                         FeedOptions options)
    : tracker_(std::move(tracker)), run_(std::move(run)), requests_(std::move(requests)), options_(options) {
  thread_ = std::thread([this] { work(); });
}

TrackerFeed::~TrackerFeed() { finish(false); }

void TrackerFeed::add(TrackedRow row) {
  const std::lock_guard lock(mutex_);
  rows_.push_back(std::move(row));
  if (rows_.size() > options_.most_rows) {
    rows_.pop_front();
    ++left_out_;
  }
  changed_.notify_all();
}

void TrackerFeed::finish(bool succeeded) {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    is_finishing_ = true;
    succeeded_ = succeeded;
    changed_.notify_all();
    if (!changed_.wait_for(lock, options_.patience, [&] { return is_finished_; })) {
      is_given_up_ = true;
      changed_.notify_all();
    }
  }
  if (is_given_up_) requests_.request_stop();
  thread_.join();
  if (const std::size_t lost = rows_.size() + left_out_; lost > 0 || is_given_up_)
    log::warning("[", tracker_->name(), "] ", lost,
                 " rows of metrics were not received; metrics.jsonl has all of them.");
}

// What waits, as one call. The lock is free meanwhile, and what fails is put back.
bool TrackerFeed::send(std::unique_lock<std::mutex>& lock) {
  constexpr std::size_t kAtOnce = 500;
  const std::size_t count = std::min(rows_.size(), kAtOnce);
  const std::vector<TrackedRow> rows(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
  const bool ends = is_finishing_ && rows_.empty(), succeeded = succeeded_;
  lock.unlock();
  std::string problem;
  try {
    if (!is_begun_) tracker_->begin(run_);
    is_begun_ = true;
    if (!rows.empty()) tracker_->log(rows);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const bool was_sent = problem.empty();
  if (was_sent && ends) {
    try {
      tracker_->finish(succeeded);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  if (!problem.empty() && !has_warned_) {
    has_warned_ = true;
    log::warning("[", tracker_->name(), "] ", problem, " Training continues; missing data is sent again later.");
  }
  lock.lock();
  if (!was_sent) rows_.insert(rows_.begin(), rows.begin(), rows.end());
  if (problem.empty() && ends) is_finished_ = true;
  return problem.empty();
}

void TrackerFeed::work() {
  std::unique_lock lock(mutex_);
  auto retry = options_.first_retry;
  int last_tries = 3;  // that fail, when the run has ended
  while (!is_finished_ && !is_given_up_) {
    changed_.wait(lock, [&] { return !rows_.empty() || is_finishing_ || !is_begun_; });
    const bool was_sent = send(lock);
    if (was_sent) retry = options_.first_retry;
    if (is_finished_ || is_given_up_) break;
    if (!was_sent && is_finishing_ && --last_tries == 0) is_given_up_ = true;
    if (is_given_up_) break;
    const auto pause = was_sent ? tracker_->pause() : is_finishing_ ? options_.first_retry : retry;
    if (!was_sent) retry = std::min(retry * 2, options_.last_retry);
    const bool was_finishing = is_finishing_;
    if (was_sent && was_finishing) continue;
    changed_.wait_for(lock, pause, [&] { return is_given_up_ || is_finishing_ != was_finishing; });
  }
  is_finished_ = true;
  changed_.notify_all();
}

}  // namespace easydel
