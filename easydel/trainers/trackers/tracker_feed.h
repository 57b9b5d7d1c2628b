// Feeds trackers in the background: a run waits for none of them, and none of them ends it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "easydel/trainers/trackers/tracker.h"

namespace easydel {

struct FeedOptions {
  std::size_t most_rows = 100'000;  // that wait for a tracker that does not answer; then the oldest are left out
  std::chrono::milliseconds first_retry{1000}, last_retry{60'000};  // the time between doubles
  std::chrono::milliseconds patience{10'000};                       // at the end of a run
};

// One tracker and its thread. The first failure is a warning, with what it was; what was not sent is sent again.
class TrackerFeed {
 public:
  TrackerFeed(std::unique_ptr<Tracker> tracker, TrackedRun run, std::stop_source requests, FeedOptions options = {});
  ~TrackerFeed();  // as after a run that failed
  TrackerFeed(const TrackerFeed&) = delete;
  TrackerFeed& operator=(const TrackerFeed&) = delete;

  void add(TrackedRow row);
  // Waits for what is on its way, at most `patience`; a warning says how many rows did not arrive.
  void finish(bool succeeded);

 private:
  void work();
  bool send(std::unique_lock<std::mutex>& lock);

  std::unique_ptr<Tracker> tracker_;
  TrackedRun run_;
  std::stop_source requests_;
  FeedOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TrackedRow> rows_;
  std::size_t left_out_ = 0;
  bool is_begun_ = false, is_finishing_ = false, is_finished_ = false, has_warned_ = false, is_given_up_ = false;
  bool succeeded_ = false;
  std::thread thread_;
};

}  // namespace easydel
