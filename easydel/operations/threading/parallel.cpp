#include "easydel/operations/threading/parallel.h"

#include <ATen/core/grad_mode.h>

#include <cassert>
#include <exception>
#include <mutex>

namespace easydel::operations {

void for_rows(int64_t rows, int64_t width, c10::function_ref<void(int64_t, int64_t)> f) {
  constexpr int64_t kElementsWorthAThread = 16384;
  at::parallel_for(0, rows, std::max<int64_t>(1, kElementsWorthAThread / std::max<int64_t>(1, width)), f);
}

void for_units(std::size_t units, c10::function_ref<void(std::size_t)> f) {
  std::atomic<std::size_t> next{0};
  const auto work = [&](int64_t, int64_t) {
    const at::NoGradGuard no_grad;
    for (std::size_t unit = next++; unit < units; unit = next++) f(unit);
  };
  at::parallel_for(0, std::min<int64_t>(static_cast<int64_t>(units), at::get_num_threads()), 1, work);
}

std::size_t Stages::add(std::vector<Piece> pieces, std::vector<std::size_t> after) {
  for ([[maybe_unused]] const std::size_t stage : after) assert(stage < stages_.size());
  stages_.push_back({std::move(pieces), std::move(after)});
  return stages_.size() - 1;
}

void Stages::run() {
  std::vector<std::atomic<int64_t>> left(stages_.size());  // unfinished pieces
  std::vector<std::pair<std::size_t, const Piece*>> pieces;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    left[s] = static_cast<int64_t>(stages_[s].pieces.size());
    for (const Piece& piece : stages_[s].pieces) pieces.emplace_back(s, &piece);
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&](int64_t, int64_t) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const auto [stage, piece] = pieces[i];
      for (const std::size_t before : stages_[stage].after)
        spin_until([&] { return left[before].load(std::memory_order_acquire) <= 0; }, 10'000);
      try {
        (*piece)();
      } catch (...) {  // the others must not wait for this piece
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
      left[stage].fetch_sub(1, std::memory_order_release);
    }
  };
  at::parallel_for(0, at::get_num_threads(), 1, work);
  if (error) std::rethrow_exception(error);
}

std::vector<Stages::Piece> row_pieces(int64_t rows, int64_t most, const std::function<void(int64_t, int64_t)>& f) {
  std::vector<Stages::Piece> pieces;
  const int64_t count = (rows + most - 1) / most;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = rows * i / count, end = rows * (i + 1) / count;
    pieces.push_back([=] { f(first, end - first); });
  }
  return pieces;
}

}  // namespace easydel::operations
