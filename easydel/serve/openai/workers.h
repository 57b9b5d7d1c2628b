// A few threads that parse, render and tokenize, so that the I/O thread and the engine's never do.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace easydel::serve {

class WorkerPool {
 public:
  using Task = std::function<void()>;  // must not throw
  using Clock = std::chrono::steady_clock;

  // `max_waiting`: of tasks by try_post; 0: any number.
  explicit WorkerPool(int threads, int64_t max_waiting = 0);
  ~WorkerPool();  // stop()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  bool try_post(Task task);  // false: too many wait, or it has stopped
  void post(Task task);      // goes before those, and is never refused; dropped once it has stopped
  // The task runs no earlier than `when`; the id cancels it, if it has not begun.
  uint64_t post_at(Clock::time_point when, Task task);
  void cancel(uint64_t timer);
  // Finishes the task that each thread is at and drops the rest. Not from one of the threads.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> urgent_, tasks_;
  std::map<std::pair<Clock::time_point, uint64_t>, Task> timers_;
  std::map<uint64_t, Clock::time_point> timer_times_;
  int64_t max_waiting_;
  uint64_t next_timer_ = 1;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace easydel::serve
