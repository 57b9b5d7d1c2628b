#include "easydel/serve/openai/workers.h"

#include <algorithm>

namespace easydel::serve {

WorkerPool::WorkerPool(int threads, int64_t max_waiting) : max_waiting_(max_waiting) {
  for (int i = 0; i < std::max(threads, 1); ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() { stop(); }

bool WorkerPool::try_post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || (max_waiting_ > 0 && static_cast<int64_t>(tasks_.size()) >= max_waiting_)) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    urgent_.push_back(std::move(task));
  }
  changed_.notify_one();
}

uint64_t WorkerPool::post_at(Clock::time_point when, Task task) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_timer_++;
    if (stopping_) return id;
    timers_.emplace(std::pair(when, id), std::move(task));
    timer_times_.emplace(id, when);
  }
  changed_.notify_one();
  return id;
}

void WorkerPool::cancel(uint64_t timer) {
  Task dropped;  // what it holds is destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  const auto entry = timers_.find({found->second, timer});
  dropped = std::move(entry->second);
  timers_.erase(entry);
  timer_times_.erase(found);
}

void WorkerPool::stop() {
  std::deque<Task> urgent, tasks;
  std::map<std::pair<Clock::time_point, uint64_t>, Task> timers;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    urgent.swap(urgent_);
    tasks.swap(tasks_);
    timers.swap(timers_);
    timer_times_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Task task;
    if (!timers_.empty() && timers_.begin()->first.first <= Clock::now()) {
      task = std::move(timers_.begin()->second);
      timer_times_.erase(timers_.begin()->first.second);
      timers_.erase(timers_.begin());
    } else if (!urgent_.empty() || !tasks_.empty()) {
      std::deque<Task>& from = urgent_.empty() ? tasks_ : urgent_;
      task = std::move(from.front());
      from.pop_front();
    } else if (!timers_.empty()) {
      changed_.wait_until(lock, timers_.begin()->first.first);
      continue;
    } else {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace easydel::serve
