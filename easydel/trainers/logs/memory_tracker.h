// Reads how much memory is used while a step runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace easydel {

// A background thread takes a reading at this interval in seconds.
class MemoryTracker {
 public:
  MemoryTracker(at::Device device, double seconds);

  // The largest reading since the last call, that of now included.
  int64_t take_max();

 private:
  void read();

  at::Device device_;
  std::atomic<int64_t> max_ = 0;
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::jthread thread_;
};

}  // namespace easydel
