// Work stealing: threads take pieces of work, each from its own part first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace easydel::operations {

// Each thread processes its own part from front to back, so that memory is read in few streams, and then helps the
// others with the rest of theirs: a slow thread does not delay the others.
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

  // Calls f(piece) for the pieces that this thread takes.
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
