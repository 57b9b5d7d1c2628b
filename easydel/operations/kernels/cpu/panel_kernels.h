// Packed rows times several vectors: some rows are unpacked into a panel that stays in the cache, and multiplied by all
// vectors in blocks of sums that stay in registers. Included by quantized_row_kernels.h and block_row_kernels.h only.
#pragma once

#include <cstdint>

#include "easydel/operations/kernels/cpu/scalar.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#define EASYDEL_PANELS 1
#endif

namespace easydel::operations::kernels {
namespace {

template <int N>
struct Constant {
  static constexpr int value = N;
};

#if !defined(EASYDEL_PANELS)
constexpr int64_t kMaxVectors = 24;
#else
// Beyond, the vectors leave the L2 cache.
constexpr int64_t kMaxVectors = 128;

// A block of three rows and four vectors takes 12 of 16 registers, and its parts of both 21 of 32 KiB of the L1 cache.
constexpr int kPanelRows = 24, kBlockRows = 3, kBlockVectors = 4;
constexpr int64_t kPanelWidth = 768;

// The sums of four registers.
inline __m128 sums_of_eight(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 four = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1));
}

// R rows of w with V rows of x: add(r, v, sum).
template <int R, int V, class Add>
inline void multiply_block(const float* w, const float* x, int64_t x_row, int64_t count, const Add& add) {
  __m256 sums[R][4];
#pragma GCC unroll 3
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sums[r][v] = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256 weights[R];
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r) weights[r] = _mm256_load_ps(w + r * kPanelWidth + i);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const __m256 values = _mm256_loadu_ps(x + v * x_row + i);
#pragma GCC unroll 3
      for (int r = 0; r < R; ++r) sums[r][v] = _mm256_fmadd_ps(weights[r], values, sums[r][v]);
    }
  }
#pragma GCC unroll 3
  for (int r = 0; r < R; ++r) {
    alignas(16) float totals[4];
    _mm_store_ps(totals, sums_of_eight(sums[r][0], sums[r][1], sums[r][2], sums[r][3]));
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      for (int64_t j = i; j < count; ++j) totals[v] += w[r * kPanelWidth + j] * x[v * x_row + j];
      add(r, v, totals[v]);
    }
  }
}

// Rows [begin, end) of a matrix times all vectors. unpack(row, from, to, out) writes a part of a row, from and to being
// multiples of `unit` or the end of the row; put(vector, row, sum, is_first) takes the sum over a part.
template <class Unpack, class Put>
inline void multiply_panels(const float* x, int64_t width, int64_t vectors, int64_t unit, int64_t begin, int64_t end,
                            const Unpack& unpack, const Put& put) {
  alignas(64) float panel[kPanelRows * kPanelWidth];
  const int64_t parts = (width + kPanelWidth - 1) / kPanelWidth;
  const int64_t step = ((width + parts - 1) / parts + unit - 1) / unit * unit;
  const int64_t blocks = (vectors + kBlockVectors - 1) / kBlockVectors;
  for (int64_t first = begin; first < end; first += kPanelRows) {
    const int64_t rows = end - first < kPanelRows ? end - first : kPanelRows;
    for (int64_t at = 0; at < width; at += step) {
      const int64_t count = width - at < step ? width - at : step;
      for (int64_t r = 0; r < rows; ++r) unpack(first + r, at, at + count, panel + r * kPanelWidth);
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t v = vectors * b / blocks, taken = vectors * (b + 1) / blocks - v;
        const auto some_rows = [&](auto r_count, auto v_count, int64_t r) __attribute__((always_inline)) {
          multiply_block<decltype(r_count)::value, decltype(v_count)::value>(
              panel + r * kPanelWidth, x + v * width + at, width, count,
              [&](int i, int j, float sum) __attribute__((always_inline)) { put(v + j, first + r + i, sum, at == 0); });
        };
        const auto all_rows = [&](auto v_count) __attribute__((always_inline)) {
          int64_t r = 0;
          for (; r + kBlockRows <= rows; r += kBlockRows) some_rows(Constant<kBlockRows>(), v_count, r);
          for (; r < rows; ++r) some_rows(Constant<1>(), v_count, r);
        };
        switch (taken) {
          case 4: all_rows(Constant<4>()); break;
          case 3: all_rows(Constant<3>()); break;
          case 2: all_rows(Constant<2>()); break;
          default: all_rows(Constant<1>());
        }
      }
    }
  }
}
#endif

}  // namespace
}  // namespace easydel::operations::kernels
