#include "easydel/trainers/logs/memory_tracker.h"

#include <chrono>

#include "easydel/core/memory.h"

namespace easydel {

MemoryTracker::MemoryTracker(at::Device device, double seconds) : device_(device) {
  thread_ = std::jthread([this, seconds](const std::stop_token& stop) {
    const std::chrono::duration<double> pause(seconds);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      read();
      wakes_.wait_for(lock, stop, pause, [] { return false; });
    }
  });
}

void MemoryTracker::read() {
  const int64_t now = used_memory(device_);
  for (int64_t known = max_; known < now && !max_.compare_exchange_weak(known, now);) {
  }
}

int64_t MemoryTracker::take_max() {
  read();
  return max_.exchange(0);
}

}  // namespace easydel
