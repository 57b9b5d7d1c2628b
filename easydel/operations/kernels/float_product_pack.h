// Parts of matrices as panels that a micro-kernel reads from front to back. Included by float_product_avx512.cpp alone.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "easydel/operations/kernels/float_product.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPanelRows = 12, kPanelColumns = 32;

inline __mmask16 first_lanes(int64_t count) {
  if (count >= kLanes) return 0xffff;
  return count <= 0 ? __mmask16(0) : static_cast<__mmask16>((1u << count) - 1);
}

__attribute__((always_inline)) inline void transpose(__m512 (&r)[16]) {
  const auto d = [](__m512 x) { return _mm512_castps_pd(x); };
  const auto s = [](__m512d x) { return _mm512_castpd_ps(x); };
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = s(_mm512_unpacklo_pd(d(t[i]), d(t[i + 2])));
    r[i + 1] = s(_mm512_unpackhi_pd(d(t[i]), d(t[i + 2])));
    r[i + 2] = s(_mm512_unpacklo_pd(d(t[i + 1]), d(t[i + 3])));
    r[i + 3] = s(_mm512_unpackhi_pd(d(t[i + 1]), d(t[i + 3])));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
    r[4 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0x88);
    r[12 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0xdd);
  }
}

// `lines` (at most kLines) dense lines of `depth` numbers, `stride` apart, become out[i * out_row + line]. Each store
// is of 16 numbers: those of missing lines are zero, and may be overwritten by the next row.
template <int64_t kLines>
void pack_transposed(const float* from, int64_t stride, int64_t lines, int64_t depth, float* out, int64_t out_row) {
  for (int64_t at = 0; at < depth; at += kLanes) {
    const __mmask16 mask = first_lanes(depth - at);
    __m512 r[16];
    if (lines >= kLines) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        r[i] = i < kLines ? _mm512_maskz_loadu_ps(mask, from + i * stride + at) : _mm512_setzero_ps();
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        r[i] = i < lines ? _mm512_maskz_loadu_ps(mask, from + i * stride + at) : _mm512_setzero_ps();
    }
    transpose(r);
    float* to = out + at * out_row;
    if (depth - at >= kLanes) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_storeu_ps(to + i * out_row, r[i]);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        if (at + i < depth) _mm512_storeu_ps(to + i * out_row, r[i]);
    }
  }
}

// Where a panel comes from: rows of a, or columns of b, as lines along the depth.
struct Lines {
  const float* data;
  int64_t line, step;  // strides: to the next line, and along it

  static Lines rows(const FloatMatrix& a) { return {a.data, a.row, a.column}; }
  static Lines columns(const FloatMatrix& b) { return {b.data, b.column, b.row}; }
};

// kWidth numbers that lie side by side, of which `lines` exist.
template <int64_t kWidth>
__attribute__((always_inline)) inline void copy_across(const float* from, int64_t lines, float* out) {
  if (kWidth == kPanelRows && lines == kWidth) {
    _mm256_storeu_ps(out, _mm256_loadu_ps(from));
    _mm_storeu_ps(out + 8, _mm_loadu_ps(from + 8));
    return;
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < kWidth; i += kLanes) {
    const __m512 some = _mm512_maskz_loadu_ps(first_lanes(lines - i), from + i);
    if (kWidth - i >= kLanes) {
      _mm512_storeu_ps(out + i, some);
    } else {
      _mm512_mask_storeu_ps(out + i, first_lanes(kWidth - i), some);
    }
  }
}

// out[i * out_row + line] for 4 dense lines of 8 numbers: few registers, and few instructions that multiply units do.
__attribute__((always_inline)) inline void turn_4_lines(const float* from, int64_t stride, float* out,
                                                        int64_t out_row) {
  const __m256 r0 = _mm256_loadu_ps(from), r1 = _mm256_loadu_ps(from + stride);
  const __m256 r2 = _mm256_loadu_ps(from + 2 * stride), r3 = _mm256_loadu_ps(from + 3 * stride);
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

// A panel of kWidth lines becomes out[k * kWidth + line], all at once or a little at a time between other work. Lines
// that are missing are zero, or left as they are where they are rows of a: nobody reads those. Writes up to 16 numbers
// behind the panel.
template <int64_t kWidth>
class Panel {
 public:
  Panel() = default;
  // `ahead`: how far behind each number lies one that will be packed later, and is asked for.
  Panel(const Lines& from, int64_t lines, int64_t depth, float* out, int64_t ahead = 0)
      : from_(from.data),
        out_(out),
        line_stride_(from.line),
        step_(from.step),
        ahead_(ahead),
        lines_(lines),
        depth_(depth) {
    turns_ = step_ == 1;
    if (turns_) {
      left_ = lines % 4 == 0 && (lines == kWidth || kWidth == kPanelRows) ? lines / 4 * (depth / kLanes) : 0;
    } else {
      left_ = line_stride_ == 1 ? depth / 2 : 0;
    }
  }

  bool waits() const { return left_ > 0; }

  // 16 numbers of 4 lines, or 2 of each.
  __attribute__((always_inline)) void some() {
    if (left_ == 0) return;
    --left_;
    if (turns_) {
      const float* from = from_ + line_ * line_stride_;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(from + ahead_ + i * line_stride_), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char*>(out_ + kLanes * (kWidth + line_ + i)), _MM_HINT_T0);
      }
      turn_4_lines(from, line_stride_, out_ + line_, kWidth);
      turn_4_lines(from + 8, line_stride_, out_ + 8 * kWidth + line_, kWidth);
      line_ += 4;
      if (line_ == lines_) {
        line_ = 0;
        pass(kLanes);
      }
    } else {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(from_ + ahead_), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char*>(from_ + ahead_ + kWidth - 1), _MM_HINT_T1);
        copy_across<kWidth>(from_, lines_, out_);
        pass(1);
      }
    }
  }

  // The whole panel's cache lines.
  void ask() const {
    const int64_t across = turns_ ? depth_ : lines_, down = turns_ ? lines_ : depth_;
    for (int64_t i = 0; i < down; ++i) {
      const float* from = from_ + i * (turns_ ? line_stride_ : step_);
      for (int64_t j = 0; j < across; j += kLanes) _mm_prefetch(reinterpret_cast<const char*>(from + j), _MM_HINT_T1);
    }
  }

  void rest() {
    while (line_ > 0) some();
    left_ = 0;
    if (turns_) {
      pack_transposed < kWidth<kLanes ? kWidth : kLanes>(from_, line_stride_, lines_, depth_, out_, kWidth);
      if (kWidth > kLanes) {
        pack_transposed<kLanes>(from_ + kLanes * line_stride_, line_stride_, lines_ - kLanes, depth_, out_ + kLanes,
                                kWidth);
      }
    } else if (line_stride_ == 1) {
      constexpr int64_t kAhead = 8;
      for (; depth_ > 0; pass(1)) {
        _mm_prefetch(reinterpret_cast<const char*>(from_ + kAhead * step_), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(from_ + kAhead * step_ + kWidth - 1), _MM_HINT_T0);
        copy_across<kWidth>(from_, lines_, out_);
      }
    } else {
      for (; depth_ > 0; pass(1)) {
        for (int64_t i = 0; i < kWidth; ++i) out_[i] = i < lines_ ? from_[i * line_stride_] : 0.0f;
      }
    }
    depth_ = 0;
  }

 private:
  __attribute__((always_inline)) void pass(int64_t depth) {
    from_ += depth * step_;
    out_ += depth * kWidth;
    depth_ -= depth;
  }

  const float* from_ = nullptr;
  float* out_ = nullptr;
  int64_t line_stride_ = 0, step_ = 0, ahead_ = 0, lines_ = 0, depth_ = 0, line_ = 0;
  int64_t left_ = 0;  // calls of some() that find work
  bool turns_ = false;
};
using RowPanel = Panel<kPanelRows>;
using ColumnPanel = Panel<kPanelColumns>;

// Panels of 12 rows, one behind the other.
class RowBlock {
 public:
  RowBlock() = default;
  RowBlock(const FloatMatrix& a, int64_t rows, int64_t depth, float* out)
      : a_(a), rows_(rows), depth_(depth), out_(out) {
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
    panel_ = RowPanel(Lines::rows(a_), std::min(rows_, kPanelRows), depth_, out_, kPanelRows * a_.row);
    rows_ -= kPanelRows;
    a_.data += kPanelRows * a_.row;
    out_ += kPanelRows * depth_;
  }

  FloatMatrix a_{};
  int64_t rows_ = 0, depth_ = 0;
  float* out_ = nullptr;
  RowPanel panel_;
};

}  // namespace
}  // namespace easydel::operations::kernels
