// Pieces of work that threads take, each from a part of its own first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace easydel::operations {

// Each thread goes through a part of its own from front to end, so that memory is read in few streams, and then helps
// the others with what is left of theirs: one that memory serves late holds up nobody.
class Pieces {
 public:
  static constexpr int64_t kMaxThreads = 64;

  Pieces(int64_t count, int64_t threads) : threads_(threads) {
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

}  // namespace easydel::operations
