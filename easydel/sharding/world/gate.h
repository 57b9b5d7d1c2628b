// A counter that threads wait on: they spin briefly, then sleep in the kernel until it advances.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace easydel {

// How often a waiter polls before it sleeps.
struct Patience {
  int spins = 0;   // busy waiting
  int yields = 0;  // then yielding the core
};

// Counts modulo 2^31. It can fail permanently, so that no waiter sleeps through the end of a run.
class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  void advance(uint32_t steps);            // wakes all waiters
  bool has_reached(uint32_t count) const;  // now, or up to 2^30 steps ago
  bool failed() const;
  void fail();
  // Waits until it has reached the count, has failed, or the deadline has passed.
  void wait(uint32_t count, Patience patience, Clock::time_point deadline) const;

 private:
  std::atomic<uint32_t> word_{0};  // bit 0: failed
};

}  // namespace easydel
