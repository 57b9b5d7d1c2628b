// Packs parts of matrices into panels that a micro-kernel reads sequentially. Included only by
// float_product_kernels.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "easydel/operations/kernels/cpu/float_lanes.h"
#include "easydel/operations/kernels/cpu/float_product.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kLanes = FloatLanes::kCount;
constexpr int64_t kPanelRows = FloatLanes::kPanelRows, kPanelColumns = 2 * kLanes;

// `lines` (at most kLines) dense lines of `depth` numbers, the first at from[line], become out[i * out_row + line].
// Each store is of kLanes numbers: those of missing lines are zero, and may be overwritten by the next row. What
// comes next is prefetched from later[line], if given.
template <int64_t kLines>
void pack_transposed(const float* const* from, const float* const* later, int64_t lines, int64_t depth, float* out,
                     int64_t out_row) {
  for (int64_t at = 0; at < depth; at += kLanes) {
    const bool is_whole = depth - at >= kLanes;
    const auto mask = FloatLanes::first(depth - at);
    FloatLanes::Vector r[kLanes];
    if (lines >= kLines && is_whole) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (later && i < kLines) __builtin_prefetch(later[i] + at, 0, 2);
        r[i] = i < kLines ? FloatLanes::load(from[i] + at) : FloatLanes::zero();
      }
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) r[i] = i < lines ? FloatLanes::load(from[i] + at, mask) : FloatLanes::zero();
    }
    FloatLanes::transpose(r);
    float* to = out + at * out_row;
    if (is_whole) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) FloatLanes::store(to + i * out_row, r[i]);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        if (at + i < depth) FloatLanes::store(to + i * out_row, r[i]);
    }
  }
}

// The same for 8 numbers of 4 lines, in registers that a product leaves free.
__attribute__((always_inline)) inline void turn_4_lines(const float* const (&from)[4], int64_t at, float* out,
                                                        int64_t out_row) {
  const __m256 r0 = _mm256_loadu_ps(from[0] + at), r1 = _mm256_loadu_ps(from[1] + at);
  const __m256 r2 = _mm256_loadu_ps(from[2] + at), r3 = _mm256_loadu_ps(from[3] + at);
  const auto put = [&](int i, __m256 low, __m256 high, bool upper) __attribute__((always_inline)) {
    const __m256d l = _mm256_castps_pd(low), h = _mm256_castps_pd(high);
    const __m256 x = _mm256_castpd_ps(upper ? _mm256_unpackhi_pd(l, h) : _mm256_unpacklo_pd(l, h));
    _mm_storeu_ps(out + i * out_row, _mm256_castps256_ps128(x));
    _mm_storeu_ps(out + (i + 4) * out_row, _mm256_extractf128_ps(x, 1));
  };
  const __m256 low01 = _mm256_unpacklo_ps(r0, r1), low23 = _mm256_unpacklo_ps(r2, r3);
  put(0, low01, low23, false);
  put(1, low01, low23, true);
  const __m256 high01 = _mm256_unpackhi_ps(r0, r1), high23 = _mm256_unpackhi_ps(r2, r3);
  put(2, high01, high23, false);
  put(3, high01, high23, true);
}

// kWidth adjacent numbers.
template <int64_t kWidth>
__attribute__((always_inline)) inline void copy_across(const float* from, float* out) {
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + kLanes <= kWidth; i += kLanes) FloatLanes::store(out + i, FloatLanes::load(from + i));
#pragma GCC unroll 2
  for (; i + 8 <= kWidth; i += 8) _mm256_storeu_ps(out + i, _mm256_loadu_ps(from + i));
#pragma GCC unroll 2
  for (; i + 4 <= kWidth; i += 4) _mm_storeu_ps(out + i, _mm_loadu_ps(from + i));
  static_assert(kWidth % 4 == 0);
}

template <_mm_hint kHint>
__attribute__((always_inline)) inline void ask_for(const float* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), kHint);
}

// A panel of kWidth lines, which are rows of a or columns of b, becomes out[k * kWidth + line]: all at once, or in
// small steps between other work, where there are registers for it. Missing columns are zero; missing rows are never
// read. Writes up to kLanes numbers past the panel.
template <int64_t kWidth>
class Panel {
 public:
  Panel() = default;
  // Each line is a row of `lines`, of which there may be `later` more after the panel: they are prefetched.
  Panel(const FloatMatrix& lines, int64_t count, int64_t later, int64_t depth, float* out)
      : lines_(lines), count_(count), depth_(depth), out_(out) {
    const bool has_all = count == kWidth;
    turns_ = lines.column == 1 && !lines.columns;
    crosses_ = !turns_ && lines.row == 1 && !lines.rows;
    if (turns_) {
      for (int64_t i = 0; i < count; ++i) from_[i] = line(i);
      for (int64_t i = 0; i < count; ++i) later_[i] = line(std::min(i + kWidth, count + later - 1));
    }
    if (!FloatLanes::kHasSpare) return;
    if (turns_ && count % 4 == 0 && (has_all || kWidth == kPanelRows)) left_ = count / 4 * (depth / kLanes) * 2;
    if (crosses_ && has_all) left_ = depth;
  }

  bool waits() const { return left_ > 0; }

  // 8 numbers of 4 lines, or one of each: more at once would fill the load queues that the product needs. The next
  // panel is prefetched from memory, and the next numbers from L2: with hyper-threading their latency is not hidden
  // otherwise.
  __attribute__((always_inline)) void some() {
    if constexpr (FloatLanes::kHasSpare) {
      if (left_ > 0) take_step();
    }
  }

  void rest() {
    while (line_ > 0 || half_ > 0) some();
    left_ = 0;
    if (k_ == depth_) return;
    float* out = out_ + k_ * kWidth;
    if (turns_) {
      for (int64_t i = 0; i < count_; ++i) from_[i] += k_;
      for (int64_t i = 0; i < count_; ++i) later_[i] += k_;
      constexpr int64_t kOnce = std::min(kWidth, kLanes);
      for (int64_t i = 0; i < kWidth; i += kOnce) {
        const float* const* later = FloatLanes::kHasSpare ? nullptr : later_ + i;
        pack_transposed<kOnce>(from_ + i, later, count_ - i, depth_ - k_, out + i, kWidth);
      }
    } else if (crosses_) {
      for (; k_ < depth_; ++k_, out += kWidth) {
        ask_soon();
        for (int64_t i = 0; i < kWidth; i += kLanes)
          FloatLanes::store(out + i, FloatLanes::load(across(k_) + i, FloatLanes::first(count_ - i)));
      }
    } else {
      for (; k_ < depth_; ++k_, out += kWidth) {
        for (int64_t i = 0; i < kWidth; ++i) out[i] = i < count_ ? line(i)[across(k_) - lines_.data] : 0.0f;
      }
    }
    k_ = depth_;
  }

  // Prefetches at most this many more of its cache lines.
  void ask(int64_t lines) {
    const int64_t along = turns_ ? depth_ : count_, in_each = (along + kLanes - 1) / kLanes;
    const int64_t all = turns_ ? count_ * in_each : crosses_ ? depth_ * in_each : 0;
    for (const int64_t end = std::min(all, asked_ + lines); asked_ < end; ++asked_) {
      const int64_t i = asked_ / in_each, at = asked_ % in_each * kLanes;
      ask_for<_MM_HINT_T1>((turns_ ? line(i) : across(i)) + at);
    }
  }

 private:
  __attribute__((always_inline)) void take_step() {
    --left_;
    if (turns_) {
      const float* from[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) from[i] = from_[line_ + i] + k_;
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        ask_for<_MM_HINT_T1>(later_[line_ + i + half_ / 4] + k_);
        ask_for<_MM_HINT_T0>(from_[line_ + i + half_ / 4] + k_ + kLanes);
      }
      turn_4_lines(from, half_, out_ + (k_ + half_) * kWidth + line_, kWidth);
      half_ ^= 8;
      if (half_ == 0) {
        line_ += 4;
        if (line_ == count_) {
          line_ = 0;
          k_ += kLanes;
        }
      }
    } else {
      const float* from = across(k_);
      ask_for<_MM_HINT_T1>(from + kWidth);
      ask_for<_MM_HINT_T1>(from + 2 * kWidth - 1);
      ask_soon();
      copy_across<kWidth>(from, out_ + k_ * kWidth);
      ++k_;
    }
  }

  const float* line(int64_t i) const { return lines_.data + (lines_.rows ? lines_.rows[i] : i) * lines_.row; }
  const float* across(int64_t k) const {
    return lines_.data + (lines_.columns ? lines_.columns[k] : k) * lines_.column;
  }

  // Prefetches a few numbers ahead, if lines are transposed.
  __attribute__((always_inline)) void ask_soon() const {
    constexpr int64_t kAhead = 8;
    const float* soon = across(std::min(k_ + kAhead, depth_ - 1));
    ask_for<_MM_HINT_T0>(soon);
    ask_for<_MM_HINT_T0>(soon + kWidth - 1);
  }

  FloatMatrix lines_{};
  const float *from_[kWidth] = {}, *later_[kWidth] = {};  // if lines are transposed
  int64_t count_ = 0, depth_ = 0;
  float* out_ = nullptr;
  int64_t k_ = 0, line_ = 0, half_ = 0;  // the next position
  int64_t left_ = 0;                     // remaining calls of some()
  int64_t asked_ = 0;
  bool turns_ = false, crosses_ = false;
};
using RowPanel = Panel<kPanelRows>;
using ColumnPanel = Panel<kPanelColumns>;

// Consecutive panels of 12 rows.
class RowBlock {
 public:
  RowBlock() = default;
  // Of `rows` rows of a, which has `later` more after them.
  RowBlock(const FloatMatrix& a, int64_t rows, int64_t later, int64_t depth, float* out)
      : a_(a), rows_(rows), later_(later), depth_(depth), out_(out) {
    go_on();
  }

  // The panel to work on now.
  RowPanel& panel() {
    if (!panel_.waits()) {
      panel_.rest();
      go_on();
    }
    return panel_;
  }

  void rest() {
    panel_.rest();
    while (rows_ > 0) {
      go_on();
      panel_.rest();
    }
  }

 private:
  void go_on() {
    if (rows_ <= 0) return;
    const int64_t count = std::min(rows_, kPanelRows);
    rows_ -= count;
    panel_ = RowPanel(a_, count, rows_ + later_, depth_, out_);
    a_ = a_.from(count, 0);
    out_ += kPanelRows * depth_;
  }

  FloatMatrix a_{};
  int64_t rows_ = 0, later_ = 0, depth_ = 0;
  float* out_ = nullptr;
  RowPanel panel_;
};

}  // namespace
}  // namespace easydel::operations::kernels
