// The float32 product over the vectors of float_lanes.h. A tile of results stays in registers; a block of `a`
// and one of `b` in a core's L2 cache, and a panel of `a` in L1. Included only by float_product_kernels.cpp.in.
#pragma once

#include <sys/mman.h>

#include <new>
#include <utility>

#include "easydel/operations/kernels/cpu/float_product_pack.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kDepth = FloatLanes::kDepth;
constexpr int64_t kBlockRows = 48;  // of a, packed at a time
constexpr int64_t kBlockColumns = kFloatProductColumns;

// The start values and the destination of a micro-kernel's sums.
struct Target {
  const float* start;  // may be null
  int64_t start_row;
  float* c;
  int64_t c_row;
  int64_t columns;
};

// Packs the next panels interleaved with the arithmetic: some of next_a, with kPacksB of next_b.
template <int kRows, bool kWhole, bool kPacksB>
void multiply_panels(const float* a, const float* b, int64_t depth, const Target& t, RowPanel& next_a,
                     ColumnPanel& next_b) {
  using Vector = FloatLanes::Vector;
  Vector sums[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = FloatLanes::zero();
  const auto step = [&]() __attribute__((always_inline)) {
    const Vector b0 = FloatLanes::load(b), b1 = FloatLanes::load(b + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Vector factor = FloatLanes::all(a[r]);
      sums[r][0] = FloatLanes::add_product(factor, b0, sums[r][0]);
      sums[r][1] = FloatLanes::add_product(factor, b1, sums[r][1]);
    }
    a += kPanelRows;
    b += kPanelColumns;
  };
  int64_t k = 0;
  const float *c = t.c, *last_c = t.c + (kRows - 1) * t.c_row;
  for (; k + 8 <= depth; k += 8) {
    __builtin_prefetch(c, 1);  // a row at a time: all at once they would delay loads of a and b
    __builtin_prefetch(c + kPanelColumns - 1, 1);
    c = c == last_c ? c : c + t.c_row;
    next_a.some();
    step();
    step();
    if constexpr (kPacksB) next_b.some();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) step();
    if constexpr (kPacksB) next_b.some();
    step();
    step();
  }
  for (; k < depth; ++k) step();
  const auto low = FloatLanes::first(t.columns), high = FloatLanes::first(t.columns - kLanes);
  if (t.start) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const float* from = t.start + r * t.start_row;
      sums[r][0] = FloatLanes::add(sums[r][0], kWhole ? FloatLanes::load(from) : FloatLanes::load(from, low));
      sums[r][1] =
          FloatLanes::add(sums[r][1], kWhole ? FloatLanes::load(from + kLanes) : FloatLanes::load(from + kLanes, high));
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    float* to = t.c + r * t.c_row;
    if (kWhole) {
      FloatLanes::store(to, sums[r][0]);
      FloatLanes::store(to + kLanes, sums[r][1]);
    } else {
      FloatLanes::store(to, sums[r][0], low);
      FloatLanes::store(to + kLanes, sums[r][1], high);
    }
  }
}

using MicroKernel = void (*)(const float*, const float*, int64_t, const Target&, RowPanel&, ColumnPanel&);
struct MicroKernels {
  MicroKernel for_rows[kPanelRows];  // 1 to kPanelRows
};
template <bool kWhole, bool kPacksB>
constexpr MicroKernels kMicroKernels = []<int... kBelow>(std::integer_sequence<int, kBelow...>) {
  return MicroKernels{{multiply_panels<kBelow + 1, kWhole, kPacksB>...}};
}(std::make_integer_sequence<int, static_cast<int>(kPanelRows)>());

// Buffers for packed blocks: two of a, because the next one is packed while products read the last, and for the same
// reason two buffers for the first panel of b.
struct Blocks {
  static constexpr int64_t kPanel = kDepth * kPanelColumns, kRows = kDepth * kBlockRows + kLanes;
  static constexpr int64_t kSize = kDepth * kBlockColumns + kPanel + 2 * kRows;

  float* b;
  float* first_b(int64_t block) const { return block % 2 == 0 ? b : b + kDepth * kBlockColumns; }
  float* a(int64_t block) const { return b + kDepth * kBlockColumns + kPanel + block % 2 * kRows; }
};

// A thread's buffer for blocks, kept between calls in one huge page. Not from malloc: a permanent allocation would
// fragment its heap.
class BlockMemory {
 public:
  static constexpr std::size_t kBytes = 2 << 20;
  static_assert(Blocks::kSize * sizeof(float) <= kBytes);

  BlockMemory() : all_(::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (all_ == MAP_FAILED) throw std::bad_alloc();
    const auto begin = reinterpret_cast<std::uintptr_t>(all_);
    page_ = reinterpret_cast<float*>((begin + kBytes - 1) / kBytes * kBytes);
#ifdef MADV_HUGEPAGE
    ::madvise(page_, kBytes, MADV_HUGEPAGE);
#endif
  }
  ~BlockMemory() { ::munmap(all_, 2 * kBytes); }
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  Blocks blocks() const { return {page_}; }

 private:
  void* all_;
  float* page_;
};

constexpr int64_t kAll = int64_t{1} << 60, kAtOnce = 4;  // cache lines to prefetch

int64_t pieces(int64_t size, int64_t of) { return (size + of - 1) / of; }

// A product in rounds: blocks of columns, and for each of them blocks of about the same depth. Each block of b is
// packed while its first rows are multiplied; rows of a, and the next round's first panel of b, while the rows before
// them are.
class BlockedProduct {
 public:
  BlockedProduct(const FloatProduct& product, Blocks blocks) : p_(product), blocks_(blocks) {
    const int64_t fewest = std::max<int64_t>(1, pieces(p_.k, kDepth));
    full_depth_ = pieces(pieces(p_.k, fewest), 16) * 16;
    deep_ = p_.k > 0 ? pieces(p_.k, full_depth_) : 1;
    rounds_ = pieces(p_.n, kBlockColumns) * deep_;
  }

  void run() {
    const Round first = round(0);
    next_b_ = panel_of_b(first, 0);
    next_b_.ask(kAll);
    if (first.columns > kPanelColumns) panel_of_b(first, kPanelColumns).ask(kAll);
    next_a_ = rows_of_a(first, 0);
    next_a_.rest();
    next_b_.rest();
    for (int64_t i = 0; i < rounds_; ++i) {
      for (int64_t row = 0; row < p_.m; row += kBlockRows) multiply_rows(round(i), row);
    }
  }

 private:
  struct Round {
    int64_t number, column, columns, k, depth;
  };
  Round round(int64_t number) const {
    const int64_t column = number / deep_ * kBlockColumns, k = number % deep_ * full_depth_;
    return {number, column, std::min(kBlockColumns, p_.n - column), k, std::min(full_depth_, p_.k - k)};
  }
  float* b_at(const Round& round, int64_t j) const {
    return j == 0 ? blocks_.first_b(round.number) : blocks_.b + j * full_depth_;
  }
  ColumnPanel panel_of_b(const Round& round, int64_t j) const {
    const int64_t columns = std::min(kPanelColumns, round.columns - j);
    return {p_.b.from(round.k, round.column + j).transposed(), columns, round.columns - j - columns, round.depth,
            b_at(round, j)};
  }
  // The buffer that the last was not packed to.
  RowBlock rows_of_a(const Round& round, int64_t row) {
    const int64_t rows = std::min(kBlockRows, p_.m - row);
    return {p_.a.from(row, round.k), rows, p_.m - row - rows, round.depth, blocks_.a(packed_a_++)};
  }
  // For prefetching only.
  RowPanel first_rows_of_a(const Round& round) const {
    return {p_.a.from(0, round.k), std::min(kPanelRows, p_.m), 0, round.depth, nullptr};
  }

  void multiply_rows(const Round& now, int64_t row) {
    const float* a = blocks_.a(packed_a_ - 1);
    const int64_t rows = std::min(kBlockRows, p_.m - row);
    const bool is_last = row + rows == p_.m, has_next = now.number + 1 < rounds_, goes_on = is_last && has_next;
    const Round next = round(now.number + 1);
    if (has_next && !is_last && row + rows + kBlockRows >= p_.m) {  // the last rows will pack the next round's first
      ahead_a_ = first_rows_of_a(next);
      ahead_b_ = panel_of_b(next, 0);
    }
    next_a_ = !is_last ? rows_of_a(now, row + rows) : goes_on ? rows_of_a(next, 0) : RowBlock();
    const auto multiply = [&](int64_t i, int64_t j) { multiply_panel(now, row + i, rows - i, j, a + i * now.depth); };
    if (row == 0) {
      for (int64_t j = 0; j < now.columns; j += kPanelColumns) {
        if (j + kPanelColumns < now.columns) {
          next_b_ = panel_of_b(now, j + kPanelColumns);
        } else if (goes_on) {
          next_b_ = panel_of_b(next, 0);
        }
        for (int64_t i = 0; i < rows; i += kPanelRows) multiply(i, j);
        next_b_.rest();
      }
    } else {
      if (goes_on) next_b_ = panel_of_b(next, 0);
      for (int64_t i = 0; i < rows; i += kPanelRows) {
        for (int64_t j = 0; j < now.columns; j += kPanelColumns) multiply(i, j);
      }
      next_b_.rest();
    }
    next_a_.rest();
  }

  // Of at most kPanelRows rows of a, from `row` on, and kPanelColumns of the round's columns of b from j on.
  void multiply_panel(const Round& now, int64_t row, int64_t rows, int64_t j, const float* a) {
    const int64_t column = now.column + j;
    float* c = p_.c + row * p_.c_row + column;
    Target target{c, p_.c_row, c, p_.c_row, now.columns - j};
    if (now.k == 0) {
      target.start = p_.start ? p_.start + row * p_.start_row + column : nullptr;
      target.start_row = p_.start_row;
    }
    ahead_a_.ask(kAtOnce);
    ahead_b_.ask(2 * kAtOnce);
    const bool whole = target.columns >= kPanelColumns, packs_b = next_b_.waits();
    const auto& kernels = whole     ? packs_b ? kMicroKernels<true, true> : kMicroKernels<true, false>
                              : packs_b ? kMicroKernels<false, true>
                                    : kMicroKernels<false, false>;
    kernels.for_rows[std::min(kPanelRows, rows) - 1](a, b_at(now, j), now.depth, target, next_a_.panel(), next_b_);
  }

  const FloatProduct& p_;
  const Blocks blocks_;
  int64_t full_depth_ = 0, deep_ = 0, rounds_ = 0;
  int64_t packed_a_ = 0;
  RowBlock next_a_;
  ColumnPanel next_b_;
  RowPanel ahead_a_;  // of the next round, to be prefetched
  ColumnPanel ahead_b_;
};

void float_product(const FloatProduct& product) {
  static thread_local const BlockMemory memory;
  BlockedProduct(product, memory.blocks()).run();
}

}  // namespace
}  // namespace easydel::operations::kernels
