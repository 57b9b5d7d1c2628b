// Float32 matrices times 5 to 63 vectors: a block of sums in registers, over the matrix as it lies in memory. Libraries
// pack it for every product, which takes longer than these sums. Included only by kernels.cpp.in.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "easydel/operations/kernels/cpu/kernels.h"

namespace easydel::operations::kernels {
namespace {

#if defined(__AVX512F__)
struct SumLanes {
  using Vector = __m512;
  static constexpr int64_t kCount = 16;
  static constexpr int kVectors = 4;  // of a block
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static Vector load(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
  }
  static Vector add_product(Vector a, Vector b, Vector sum) { return _mm512_fmadd_ps(a, b, sum); }
  // The four sums of their lanes.
  static __m128 totals(Vector a, Vector b, Vector c, Vector d) {
    const auto fold = [](Vector x) { return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); };
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(fold(a), fold(b)), _mm256_hadd_ps(fold(c), fold(d)));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  }
};
#elif defined(__AVX2__)
struct SumLanes {
  using Vector = __m256;
  static constexpr int64_t kCount = 8;
  static constexpr int kVectors = 3;
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector load(const float* from, int64_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane));
  }
  static Vector add_product(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }
  static __m128 totals(Vector a, Vector b, Vector c, Vector d) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  }
};
#endif

#if defined(__AVX2__)
// R rows of the weight, at most 4, times V vectors. A sum has the same bits in every block that it may be a part of.
template <int R, int V>
inline void multiply_block(const GemvArgs& args, int64_t row, int64_t vector) {
  const float* const w = static_cast<const float*>(args.weight) + row * args.width;
  const float* const x = static_cast<const float*>(args.x) + vector * args.width;
  SumLanes::Vector sums[4][V];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[r][v] = SumLanes::zero();
  const auto add = [&](int64_t i, auto&& load) __attribute__((always_inline)) {
    if (vector == 0) {  // the rows that come next, while these are read for the first time
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) __builtin_prefetch(w + (R + r) * args.width + i);
    }
    SumLanes::Vector values[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) values[v] = load(x + v * args.width + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const SumLanes::Vector weights = load(w + r * args.width + i);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = SumLanes::add_product(weights, values[v], sums[r][v]);
    }
  };
  int64_t i = 0;
  for (; i + SumLanes::kCount <= args.width; i += SumLanes::kCount)
    add(i, [](const float* from) { return SumLanes::load(from); });
  if (const int64_t rest = args.width - i; rest > 0)
    add(i, [rest](const float* from) { return SumLanes::load(from, rest); });
  const auto* const bias = static_cast<const float*>(args.bias);
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    float totals[4];
    _mm_storeu_ps(totals, SumLanes::totals(sums[0][v], sums[1][v], sums[2][v], sums[3][v]));
    float* const y = static_cast<float*>(args.y) + (vector + v) * args.y_row + row;
    for (int r = 0; r < R; ++r) y[r] = bias ? totals[r] + bias[row + r] : totals[r];
  }
}

template <int R>
inline void multiply_rows(const GemvArgs& args, int64_t row) {
  constexpr int kMost = SumLanes::kVectors;
  int64_t v = 0;
  for (; v + kMost <= args.vectors; v += kMost) multiply_block<R, kMost>(args, row, v);
  switch (args.vectors - v) {
    case 3: return multiply_block<R, 3>(args, row, v);
    case 2: return multiply_block<R, 2>(args, row, v);
    case 1: return multiply_block<R, 1>(args, row, v);
    default: return;
  }
}

void some_vectors(const GemvArgs& args, int64_t begin, int64_t end) {
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) multiply_rows<4>(args, row);
  for (; row < end; ++row) multiply_rows<1>(args, row);
}
constexpr auto kSomeVectors = &some_vectors;
#else
constexpr void (*kSomeVectors)(const GemvArgs&, int64_t, int64_t) = nullptr;
#endif

}  // namespace
}  // namespace easydel::operations::kernels
