#include "easydel/sharding/world/gate.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace easydel {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

bool reached(uint32_t word, uint32_t count) { return static_cast<int32_t>((word & ~1u) - (count << 1)) >= 0; }

void sleep_while(const std::atomic<uint32_t>& word, uint32_t value, Gate::Clock::duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec limit{static_cast<time_t>(seconds.count()),
                       static_cast<long>(std::chrono::nanoseconds(time - seconds).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &limit, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Gate::advance(uint32_t steps) {
  word_.fetch_add(steps << 1, std::memory_order_acq_rel);
  wake_all(word_);
}

bool Gate::has_reached(uint32_t count) const { return reached(word_.load(std::memory_order_acquire), count); }

bool Gate::failed() const { return (word_.load(std::memory_order_acquire) & 1) != 0; }

void Gate::fail() {
  word_.fetch_or(1, std::memory_order_acq_rel);
  wake_all(word_);
}

void Gate::wait(uint32_t count, Patience patience, Clock::time_point deadline) const {
  for (int i = 0;; ++i) {
    const uint32_t word = word_.load(std::memory_order_acquire);
    if (reached(word, count) || (word & 1) != 0) return;
    if (i < patience.spins + patience.yields) {
      i < patience.spins ? pause() : static_cast<void>(::sched_yield());
      continue;
    }
    const auto now = Clock::now();
    if (now >= deadline) return;
    sleep_while(word_, word, deadline - now);
  }
}

}  // namespace easydel
