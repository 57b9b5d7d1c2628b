// How operations share work among the CPU's threads. Which to use:
//   for_rows        rows that cost about the same: each thread gets one run of neighbours.
//   for_units       units that differ in cost or that memory serves at different speeds: threads take the next one.
//   StealingRange   loops of microseconds over memory that is read once: each thread reads a run of its own, then helps
//                   others. With SpinBarrier, several such loops in one parallel region (decode_layer).
//   Stages          work with dependencies: threads go on to the next stage while others end the last one (experts).
#pragma once

#include <ATen/Parallel.h>
#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace easydel::operations {

// f(begin, end) over rows that cost about `width` elements (or bytes) each. Few rows stay on the calling thread.
void for_rows(int64_t rows, int64_t width, c10::function_ref<void(int64_t, int64_t)> f);

// f(unit) for the index of each, without gradient, by threads that take the next one as they come free.
void for_units(std::size_t units, c10::function_ref<void(std::size_t)> f);

// Pieces [0, count), cut into as many ranges as there are threads. A thread goes through its own range from front to
// end, so that memory is read in few streams, and then helps the others with what is left of theirs.
class StealingRange {
 public:
  static constexpr int64_t kMaxThreads = 64;

  StealingRange(int64_t count, int64_t threads) : threads_(threads) {
    for (int64_t i = 0; i < threads; ++i) {
      Part& part = parts_[static_cast<std::size_t>(i)];
      part.next = count * i / threads;
      part.end = count * (i + 1) / threads;
    }
  }

  // f(piece) for what this thread takes.
  template <class F>
  void take(int64_t thread, const F& f) {
    for (int64_t i = 0; i < threads_; ++i) {
      Part& part = parts_[static_cast<std::size_t>((thread + i) % threads_)];
      for (int64_t piece = 0; (piece = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end;) f(piece);
    }
  }

 private:
  struct alignas(64) Part {
    std::atomic<int64_t> next;
    int64_t end;
  };
  std::array<Part, kMaxThreads> parts_;
  int64_t threads_;
};

// Waits without sleeping; after `spins` checks another thread may have the processor.
template <class F>
void spin_until(const F& done, int spins) {
  for (int i = 0; !done(); ++i) {
    if (i >= spins) {
      std::this_thread::yield();
      continue;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

// The threads of one region wait for each other, for microseconds.
class SpinBarrier {
 public:
  explicit SpinBarrier(int64_t threads) : threads_(threads) {}
  void wait() {
    const int64_t arrived = arrived_.fetch_add(1, std::memory_order_acq_rel) + 1;
    const int64_t wanted = (arrived + threads_ - 1) / threads_ * threads_;
    spin_until([&] { return arrived_.load(std::memory_order_acquire) >= wanted; }, 1'000);
  }

 private:
  const int64_t threads_;
  std::atomic<int64_t> arrived_{0};
};

class Stages {
 public:
  using Piece = std::function<void()>;

  // Pieces that may run at once, when all stages of `after` have ended. Returns the number of the stage.
  std::size_t add(std::vector<Piece> pieces, std::vector<std::size_t> after = {});

  // By all threads, without gradient. Pieces are begun in the order in which they were added, so a stage should wait
  // for one that is a few stages before it. Throws what a piece threw, once all have ended.
  void run();

 private:
  struct Stage {
    std::vector<Piece> pieces;
    std::vector<std::size_t> after;
  };
  std::vector<Stage> stages_;
};

// f(first, count) for pieces of at most `most` rows.
std::vector<Stages::Piece> row_pieces(int64_t rows, int64_t most, const std::function<void(int64_t, int64_t)>& f);

}  // namespace easydel::operations
