// Rows of GGUF's blocks times one vector that is split into digits of eight bits, in integers. Included only by
// block_kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/block_row_kernels.h"

namespace easydel::operations::kernels {
namespace {

void split_x(const float* x, int64_t width, int8_t* digits, float* scales) {
  constexpr float kLargest = 32639;  // 127 * 256 + 127
  for (int64_t at = 0; at < width; at += kSplitElements, x += kSplitElements, digits += 2 * kSplitElements, ++scales) {
    const float largest = largest_of(x, kSplitElements);
    const bool usable = largest > 1e-33f;  // else the scale is zero or a NaN
    const float inverse = usable ? kLargest / largest : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < kSplitElements; ++i) {
      // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the last bits.
      const float shifted = (usable ? x[i] : 0.0f) * inverse + 12582912.0f;
      const int32_t whole = static_cast<int32_t>(float_to_bits(shifted) - 0x4b400000u), first = (whole + 128) >> 8;
      digits[i] = static_cast<int8_t>(first);
      digits[kSplitElements + i] = static_cast<int8_t>(whole - 256 * first);
    }
    *scales = usable || largest != largest ? largest / kLargest : 0.0f;
  }
}

#if defined(__AVX2__)
// Eight scales, and eight minima behind them, of six bits each in the twelve bytes of Q4_K and Q5_K.
inline __m128i scale_bytes(const uint8_t* packed) {
  uint32_t from[3], to[4];
  std::memcpy(from, packed, sizeof from);
  to[0] = from[0] & 0x3f3f3f3fu;
  to[1] = (from[2] & 0x0f0f0f0fu) | ((from[0] >> 6 & 0x03030303u) << 4);
  to[2] = from[1] & 0x3f3f3f3fu;
  to[3] = (from[2] >> 4 & 0x0f0f0f0fu) | ((from[1] >> 6 & 0x03030303u) << 4);
  return _mm_setr_epi32(static_cast<int>(to[0]), static_cast<int>(to[1]), static_cast<int>(to[2]),
                        static_cast<int>(to[3]));
}

inline __m256 bytes_to_floats(__m128i eight) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight)); }

#if defined(__AVX512VNNI__)
using SplitSum = __m512;
inline SplitSum no_split_sum() { return _mm512_setzero_ps(); }
inline float sum(SplitSum x) { return _mm512_reduce_add_ps(x); }

// The scaled products of 256 codes and digits.
inline SplitSum add_q4_k(SplitSum to, const uint8_t* codes, const int8_t* digits, __m128i scales, float unit) {
  const __m512i shifts = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4), fifteen = _mm512_set1_epi8(15);
  const __m512i halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512 units = _mm512_castps256_ps512(_mm256_mul_ps(bytes_to_floats(scales), _mm256_set1_ps(unit)));
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    const __m512i bytes =
        _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32 * pair)));
    const __m512i both = _mm512_and_si512(_mm512_srlv_epi64(bytes, shifts), fifteen);
    const int8_t* own = digits + 64 * pair;
    const __m512i first = _mm512_dpbusd_epi32(_mm512_setzero_si512(), both, _mm512_loadu_si512(own));
    const __m512i whole =
        _mm512_dpbusd_epi32(_mm512_slli_epi32(first, 8), both, _mm512_loadu_si512(own + kSplitElements));
    const __m512 scale = _mm512_permutexvar_ps(_mm512_add_epi32(halves, _mm512_set1_epi32(2 * pair)), units);
    to = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), scale, to);
  }
  return to;
}
#else
using SplitSum = __m256;
inline SplitSum no_split_sum() { return _mm256_setzero_ps(); }
inline float sum(SplitSum x) { return sum_of_eight(x); }

inline __m256i add_pairs(__m256i to, __m256i x, __m256i y) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(to, x, y);
#else
  return _mm256_add_epi32(to, _mm256_madd_epi16(x, y));
#endif
}

// A pair of products is at most 2 * 15 * 128, the sum of all of a lane with their scales 2^22.
inline SplitSum add_q4_k(SplitSum to, const uint8_t* codes, const int8_t* digits, __m128i scales, float unit) {
  const __m256i fifteen = _mm256_set1_epi8(15);
  const __m256i words = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(scales));
  __m256i first = _mm256_setzero_si256(), second = first;
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32 * pair));
    const __m256i nibbles[2] = {_mm256_and_si256(bytes, fifteen),
                                _mm256_and_si256(_mm256_srli_epi16(bytes, 4), fifteen)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int group = 2 * pair + half;
      const auto* own = reinterpret_cast<const __m256i*>(digits + 32 * group);
      const __m256i scale =
          _mm256_shuffle_epi8(words, _mm256_set1_epi16(static_cast<int16_t>(0x0100 + 0x0202 * group)));
      first = add_pairs(first, _mm256_maddubs_epi16(nibbles[half], _mm256_loadu_si256(own)), scale);
      second = add_pairs(second, _mm256_maddubs_epi16(nibbles[half], _mm256_loadu_si256(own + 8)), scale);
    }
  }
  const __m256i whole = _mm256_add_epi32(_mm256_slli_epi32(first, 8), second);
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(unit), to);
}
#endif

void split_q4_k(const BlockArgs& args, int64_t begin, int64_t end) {
  constexpr int64_t kAhead = 4096;  // bytes
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* block = args.blocks + row * args.row_bytes;
    const int8_t* digits = args.digits;
    const float* sums = args.sums;
    SplitSum total = no_split_sum();
    __m256 minus = _mm256_setzero_ps();
    const int64_t blocks = args.width / kSplitElements;
    for (int64_t b = 0; b < blocks; ++b, block += Q4_K::kBytes, digits += 2 * kSplitElements, sums += 8) {
      for (int i = 0; i < Q4_K::kBytes; i += 64) __builtin_prefetch(block + kAhead + i);
      const __m128i scales = scale_bytes(block + 4);
      total = add_q4_k(total, block + 16, digits, scales, half_at(block) * args.scales[b]);
      const __m256 minima =
          _mm256_mul_ps(bytes_to_floats(_mm_srli_si128(scales, 8)), _mm256_set1_ps(half_at(block + 2)));
      minus = _mm256_fmadd_ps(minima, _mm256_loadu_ps(sums), minus);
    }
    args.y[row] = sum(total) - sum_of_eight(minus);
  }
}
constexpr auto kSplitQ4_K = &split_q4_k;
#else
constexpr decltype(BlockKernels::split_q4_k) kSplitQ4_K = nullptr;
#endif

}  // namespace
}  // namespace easydel::operations::kernels
