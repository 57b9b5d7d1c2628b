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

// Panels of 12 rows, one behind the other: out[k * 12 + row]. Rows that are missing are zero. Writes up to 4 numbers
// behind the last panel.
inline void pack_rows(const FloatMatrix& a, int64_t rows, int64_t depth, float* out) {
  const int64_t panel = kPanelRows * depth, whole = rows / kPanelRows;
  if (a.column == 1) {
    for (int64_t row = 0; row < rows; row += kPanelRows, out += panel)
      pack_transposed<kPanelRows>(a.data + row * a.row, a.row, rows - row, depth, out, kPanelRows);
  } else if (a.row == 1) {
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = a.data + k * a.column;
      float* to = out + k * kPanelRows;
      for (int64_t i = 0; i < whole; ++i, from += kPanelRows, to += panel) {
        _mm256_storeu_ps(to, _mm256_loadu_ps(from));
        _mm_storeu_ps(to + 8, _mm_loadu_ps(from + 8));
      }
      if (const int64_t left = rows - whole * kPanelRows)
        _mm512_mask_storeu_ps(to, first_lanes(kPanelRows), _mm512_maskz_loadu_ps(first_lanes(left), from));
    }
  } else {
    for (int64_t row = 0; row < rows; row += kPanelRows, out += panel) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t r = 0; r < kPanelRows; ++r)
          out[k * kPanelRows + r] = row + r < rows ? a.data[(row + r) * a.row + k * a.column] : 0.0f;
      }
    }
  }
}

// One panel of 32 columns: out[k * 32 + column]. Columns that are missing are zero.
inline void pack_columns(const FloatMatrix& b, int64_t columns, int64_t depth, float* out) {
  if (b.row == 1) {
    pack_transposed<kLanes>(b.data, b.column, columns, depth, out, kPanelColumns);
    pack_transposed<kLanes>(b.data + kLanes * b.column, b.column, columns - kLanes, depth, out + kLanes, kPanelColumns);
  } else if (b.column == 1) {
    constexpr int64_t kAhead = 8;
    const __mmask16 low = first_lanes(columns), high = first_lanes(columns - kLanes);
    for (int64_t k = 0; k < depth; ++k, out += kPanelColumns) {
      const float* from = b.data + k * b.row;
      _mm_prefetch(reinterpret_cast<const char*>(from + kAhead * b.row), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from + kAhead * b.row + kLanes), _MM_HINT_T0);
      _mm512_store_ps(out, _mm512_maskz_loadu_ps(low, from));
      _mm512_store_ps(out + kLanes, _mm512_maskz_loadu_ps(high, from + kLanes));
    }
  } else {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < kPanelColumns; ++j)
        out[k * kPanelColumns + j] = j < columns ? b.data[k * b.row + j * b.column] : 0.0f;
    }
  }
}

// The cache lines of a part that will be packed later, asked for some at a time.
class Ahead {
 public:
  Ahead(const FloatMatrix& part, int64_t rows, int64_t columns, int64_t times) : at_(part.data) {
    const bool by_rows = part.column == 1;
    if (rows <= 0 || columns <= 0 || (!by_rows && part.row != 1)) return;
    stride_ = by_rows ? part.row : part.column;
    across_ = ((by_rows ? columns : rows) + kLanes - 1) / kLanes;
    left_ = across_ * (by_rows ? rows : columns);
    step_ = (left_ + times - 1) / times;
  }

  void ask() {
    for (int64_t i = step_; i > 0; --i) ask_one();
  }

  void ask_one() {
    if (left_ == 0) return;
    --left_;
    _mm_prefetch(reinterpret_cast<const char*>(at_ + column_ * kLanes), _MM_HINT_T1);
    if (++column_ == across_) {
      column_ = 0;
      at_ += stride_;
    }
  }

 private:
  const float* at_;
  int64_t stride_ = 0, across_ = 1, left_ = 0, step_ = 0, column_ = 0;
};

}  // namespace
}  // namespace easydel::operations::kernels
