// Runs a list of jobs on a few threads; the first error stops them all and is rethrown.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include "easydel/core/error.h"

namespace easydel {

// Thrown by a job whose stop token was triggered.
class Cancelled : public Error {
 public:
  Cancelled() : Error("[parallel] cancelled: another job failed.") {}
};

// Each of at most `max_workers` threads, including the caller's, calls `make_worker(stop)` once, and calls the result
// with indices from 0 … count - 1.
template <class MakeWorker>
void for_each_in_parallel(std::size_t count, int max_workers, const MakeWorker& make_worker) {
  std::stop_source stop;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto work = [&] {
    try {
      auto worker = make_worker(stop.get_token());
      for (std::size_t i; !stop.stop_requested() && (i = next++) < count;) worker(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
      stop.request_stop();
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto workers = std::min(count, static_cast<std::size_t>(std::max(1, max_workers)));
    try {
      for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads are available; those that run will do it
    }
    work();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace easydel
