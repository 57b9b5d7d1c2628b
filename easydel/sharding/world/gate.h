// A counter that threads wait on: they look a few times, then sleep in the kernel until it has moved on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace easydel {

// How often a waiter looks before it sleeps.
struct Patience {
  int spins = 0;   // holding its core
  int yields = 0;  // after those, letting others run
};

// Counts modulo 2^31. It can fail, for good, so that nobody sleeps through the end of a run.
class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  void advance(uint32_t steps);            // wakes all who wait
  bool has_reached(uint32_t count) const;  // now, or up to 2^30 steps ago
  bool failed() const;
  void fail();
  // Until it has reached the count, has failed, or the deadline has passed.
  void wait(uint32_t count, Patience patience, Clock::time_point deadline) const;

 private:
  std::atomic<uint32_t> word_{0};  // bit 0 says that it has failed
};

}  // namespace easydel
