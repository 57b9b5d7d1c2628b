// Vectors of float32 products: those of AVX-512, or of AVX2. Included only by the files that are compiled for them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace easydel::operations::kernels {
namespace {

#if defined(__AVX512F__)
struct FloatLanes {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int64_t kCount = 16;
  // A tile of results, of kPanelRows times 2 vectors, takes 24 of 32 registers.
  static constexpr int64_t kPanelRows = 12;
  static constexpr bool kHasSpare = true;  // registers, beside a tile and what it is made of
  static constexpr int64_t kDepth = 384;   // of a block

  static Mask first(int64_t count) {
    if (count >= kCount) return 0xffff;
    return count <= 0 ? Mask(0) : static_cast<Mask>((1U << count) - 1);
  }
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector all(float value) { return _mm512_set1_ps(value); }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static Vector load(const float* from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
  static void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
  static void store(float* to, Vector x, Mask mask) { _mm512_mask_storeu_ps(to, mask, x); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector add_product(Vector a, Vector b, Vector sum) { return _mm512_fmadd_ps(a, b, sum); }

  // The four sums of their lanes.
  static __m128 totals(Vector a, Vector b, Vector c, Vector d) {
    const auto fold = [](Vector x) { return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); };
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(fold(a), fold(b)), _mm256_hadd_ps(fold(c), fold(d)));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  }

  __attribute__((always_inline)) static void transpose(Vector (&r)[16]) {
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
};
#else
struct FloatLanes {
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr int64_t kCount = 8;
  static constexpr int64_t kPanelRows = 6;  // a tile takes 12 of 16 registers
  static constexpr bool kHasSpare = false;
  static constexpr int64_t kDepth = 192;  // a block of b takes 384 KB: L2 has 512 in most CPUs without AVX-512

  static Mask first(int64_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count < kCount ? count : kCount)), lane);
  }
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector all(float value) { return _mm256_set1_ps(value); }
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector load(const float* from, Mask mask) { return _mm256_maskload_ps(from, mask); }
  static void store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
  static void store(float* to, Vector x, Mask mask) { _mm256_maskstore_ps(to, mask, x); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector add_product(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }

  static __m128 totals(Vector a, Vector b, Vector c, Vector d) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  }

  __attribute__((always_inline)) static void transpose(Vector (&r)[8]) {
    const auto d = [](__m256 x) { return _mm256_castps_pd(x); };
    const auto s = [](__m256d x) { return _mm256_castpd_ps(x); };
    __m256 t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      r[i] = s(_mm256_unpacklo_pd(d(t[i]), d(t[i + 2])));
      r[i + 1] = s(_mm256_unpackhi_pd(d(t[i]), d(t[i + 2])));
      r[i + 2] = s(_mm256_unpacklo_pd(d(t[i + 1]), d(t[i + 3])));
      r[i + 3] = s(_mm256_unpackhi_pd(d(t[i + 1]), d(t[i + 3])));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);
      t[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = t[i];
  }
};
#endif

}  // namespace
}  // namespace easydel::operations::kernels
