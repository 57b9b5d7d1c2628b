// Decodes sixteen weights at a time to floats; and products of int8. Included by
// quantized_kernels.cpp.in only.
#pragma once

#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kLanes = 16;

// What each instruction set defines below: Floats, sixteen of them; Table, the values of sixteen codes, and Centred,
// those of code - 8, both times kUnit; and look_up, the values of sixteen bytes' low nibbles and of their high ones.

#if defined(__AVX512F__)

struct Floats {
  __m512 a;
};
inline Floats zeros() { return {_mm512_setzero_ps()}; }
inline Floats all(float value) { return {_mm512_set1_ps(value)}; }
inline Floats read(const float* from) { return {_mm512_loadu_ps(from)}; }
inline Floats read(const int8_t* codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
inline void write(float* to, Floats x) { _mm512_storeu_ps(to, x.a); }
inline Floats operator+(Floats x, Floats y) { return {_mm512_add_ps(x.a, y.a)}; }
inline Floats operator*(Floats x, Floats y) { return {_mm512_mul_ps(x.a, y.a)}; }
inline Floats add_product(Floats x, Floats y, Floats to) { return {_mm512_fmadd_ps(x.a, y.a, to.a)}; }
inline float sum(Floats x) { return _mm512_reduce_add_ps(x.a); }

struct Block {
  Floats low, high;
};
struct Table {
  static constexpr float kUnit = 1;
  Floats values;
  explicit Table(const float* from) : values(read(from)) {}
};
// Only the low four bits of an index count, so no mask is needed.
inline Block look_up(const Table& table, const uint8_t* codes) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  const __m512 values = table.values.a;
  return {{_mm512_permutexvar_ps(bytes, values)}, {_mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values)}};
}

#elif defined(__AVX2__)

struct Floats {
  __m256 a, b;
};
inline Floats zeros() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Floats all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline Floats read(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline __m256i eight_bytes(const void* from, bool is_signed) {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(from));
  return is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
}
inline Floats read(const int8_t* codes) {
  return {_mm256_cvtepi32_ps(eight_bytes(codes, true)), _mm256_cvtepi32_ps(eight_bytes(codes + 8, true))};
}
inline void write(float* to, Floats x) {
  _mm256_storeu_ps(to, x.a);
  _mm256_storeu_ps(to + 8, x.b);
}
inline Floats operator+(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline Floats operator*(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline Floats add_product(Floats x, Floats y, Floats to) {
  return {_mm256_fmadd_ps(x.a, y.a, to.a), _mm256_fmadd_ps(x.b, y.b, to.b)};
}
inline float sum(Floats x) { return sum_of_eight(_mm256_add_ps(x.a, x.b)); }

struct Block {
  Floats low, high;
};
// The sixteen floats of a table as four planes of sixteen bytes, each in both halves of a register: a byte shuffle
// picks from sixteen values at once, where a shuffle of floats has only eight.
struct Table {
  static constexpr float kUnit = 1;
  __m256i planes[4];

  explicit Table(const float* from) {
    alignas(16) uint8_t bytes[4][16];
    for (int i = 0; i < 16; ++i)
      for (int plane = 0; plane < 4; ++plane) bytes[plane][i] = reinterpret_cast<const uint8_t*>(from + i)[plane];
    for (int plane = 0; plane < 4; ++plane)
      planes[plane] = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes[plane])));
  }
};
inline __m256i sixteen_twice(const uint8_t* from) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Block look_up(const Table& table, const uint8_t* codes) {
  // In such an order that the unpacking below, which works on halves of registers, ends with floats in order.
  const __m256i order = _mm256_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11,  //
                                         4, 5, 6, 7, 12, 13, 14, 15, 4, 5, 6, 7, 12, 13, 14, 15);
  const __m256i ordered = _mm256_shuffle_epi8(sixteen_twice(codes), order);
  const __m256i index =
      _mm256_and_si256(_mm256_srlv_epi64(ordered, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15));
  __m256i bytes[4];
#pragma GCC unroll 4
  for (int plane = 0; plane < 4; ++plane) bytes[plane] = _mm256_shuffle_epi8(table.planes[plane], index);
  const __m256i first = _mm256_unpacklo_epi8(bytes[0], bytes[1]), second = _mm256_unpacklo_epi8(bytes[2], bytes[3]);
  const __m256i third = _mm256_unpackhi_epi8(bytes[0], bytes[1]), fourth = _mm256_unpackhi_epi8(bytes[2], bytes[3]);
  return {{_mm256_castsi256_ps(_mm256_unpacklo_epi16(first, second)),
           _mm256_castsi256_ps(_mm256_unpackhi_epi16(first, second))},
          {_mm256_castsi256_ps(_mm256_unpacklo_epi16(third, fourth)),
           _mm256_castsi256_ps(_mm256_unpackhi_epi16(third, fourth))}};
}

// code - 8, in units that cost nothing: a nibble in the highest bits of an int32.
struct Centred {
  static constexpr float kUnit = 0x1p-28f;
};
inline Block look_up(const Centred&, const uint8_t* codes) {
  const __m256i signed_codes = _mm256_xor_si256(sixteen_twice(codes), _mm256_set1_epi8(-120));             // 0x88
  const __m256i to_highest = _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3,  //
                                              -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7);
  const __m256i eight_on = _mm256_set1_epi32(8 << 24), mask = _mm256_set1_epi32(static_cast<int>(0xf0000000u));
  const __m256i a = _mm256_shuffle_epi8(signed_codes, to_highest);
  const __m256i b = _mm256_shuffle_epi8(signed_codes, _mm256_add_epi8(to_highest, eight_on));
  const auto floats = [](__m256i x) { return _mm256_cvtepi32_ps(x); };
  return {{floats(_mm256_slli_epi32(a, 4)), floats(_mm256_slli_epi32(b, 4))},
          {floats(_mm256_and_si256(a, mask)), floats(_mm256_and_si256(b, mask))}};
}

#else

struct Floats {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  Vector a;
};
inline Floats zeros() { return {Floats::Vector{}}; }
inline Floats all(float value) { return {Floats::Vector{} + value}; }
inline Floats read(const float* from) {
  Floats x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}
inline Floats read(const int8_t* codes) {
  float x[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) x[i] = codes[i];
  return read(x);
}
inline void write(float* to, const Floats& x) { __builtin_memcpy(to, &x, sizeof x); }
inline Floats operator+(const Floats& x, const Floats& y) { return {x.a + y.a}; }
inline Floats operator*(const Floats& x, const Floats& y) { return {x.a * y.a}; }
inline Floats add_product(const Floats& x, const Floats& y, const Floats& to) { return {x.a * y.a + to.a}; }
inline float sum(const Floats& x) {
  float total = 0;
  for (int64_t i = 0; i < kLanes; ++i) total += x.a[i];
  return total;
}

struct Block {
  Floats low, high;
};
struct Table {
  static constexpr float kUnit = 1;
  const float* values;
  explicit Table(const float* from) : values(from) {}
};
inline Block look_up(const Table& table, const uint8_t* codes) {
  float low[kLanes], high[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    low[i] = table.values[codes[i] & 15];
    high[i] = table.values[codes[i] >> 4];
  }
  return {read(low), read(high)};
}

#endif

#if !defined(__AVX2__) || defined(__AVX512F__)
struct Centred : Table {
  Centred() : Table(kValues) {}
  static constexpr float kValues[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
};
#endif

// Thirty-two products of int8 at a time, summed in eight or one int32. kOffset makes int8 codes unsigned; the sum of
// the products is then too large by kOffset times the sum of x.
#if defined(__AVX2__)

struct Dots {
  __m256i a;
};
inline Dots start(int32_t value) { return {_mm256_zextsi128_si256(_mm_cvtsi32_si128(value))}; }
inline __m256i thirty_two(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr int32_t kOffset = 128;
inline __m256i products(__m256i to, __m256i codes, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(to, codes, x);
#else
  return _mm256_dpbusd_avx_epi32(to, codes, x);
#endif
}
inline Dots add_products(Dots to, const int8_t* codes, const int8_t* x) {
  const __m256i as_unsigned = _mm256_xor_si256(thirty_two(codes), _mm256_set1_epi8(-128));
  return {products(to.a, as_unsigned, thirty_two(x))};
}
#else
constexpr int32_t kOffset = 0;
// Pairs are summed in int16: nibbles and x reach 2 * 15 * 127, int8 and x 2 * 128 * 127.
inline __m256i products(__m256i to, __m256i codes, __m256i x) {
  return _mm256_add_epi32(to, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1)));
}
inline Dots add_products(Dots to, const int8_t* codes, const int8_t* x) {
  const __m256i weights = thirty_two(codes);
  return {products(to.a, _mm256_abs_epi8(weights), _mm256_sign_epi8(thirty_two(x), weights))};
}
#endif

// A lane for each of some rows: an int32, four codes, or a float.
#if defined(__AVX512F__)
#define EASYDEL_ROWS(name) _mm512_##name
constexpr int64_t kRowLanes = 16;
using RowInts = __m512i;
using RowFloats = __m512;
inline RowInts row_ints(const void* from) { return _mm512_load_si512(from); }
inline void write_nibbles(uint8_t* to, RowInts bytes) {
  _mm512_store_si512(to, _mm512_and_si512(bytes, _mm512_set1_epi8(15)));
}
inline RowInts parts(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(two, c, 2), d, 3);
}
#else
#define EASYDEL_ROWS(name) _mm256_##name
constexpr int64_t kRowLanes = 8;
using RowInts = __m256i;
using RowFloats = __m256;
inline RowInts row_ints(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
inline void write_nibbles(uint8_t* to, RowInts bytes) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_and_si256(bytes, _mm256_set1_epi8(15)));
}
inline RowInts parts(__m128i a, __m128i b) { return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1); }
#endif
inline RowInts in_all_rows(int32_t value) { return EASYDEL_ROWS(set1_epi32)(value); }
inline RowFloats in_all_rows(float value) { return EASYDEL_ROWS(set1_ps)(value); }
inline RowFloats row_floats(const float* from) { return EASYDEL_ROWS(loadu_ps)(from); }
inline void write_rows(float* to, RowFloats x) { EASYDEL_ROWS(storeu_ps)(to, x); }
inline RowFloats plus(RowFloats x, RowFloats y) { return EASYDEL_ROWS(add_ps)(x, y); }
inline RowFloats add_scaled_rows(RowFloats to, RowInts x, RowFloats scale, RowFloats scale_of_rows) {
  return EASYDEL_ROWS(fmadd_ps)(EASYDEL_ROWS(mul_ps)(EASYDEL_ROWS(cvtepi32_ps)(x), scale), scale_of_rows, to);
}
// Adds four products to each int32 or, unless kSumsFours, two to each int16: those of a block of nibbles reach
// 16 * 15 * 127.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kSumsFours = true;
inline RowInts add_fours(RowInts to, RowInts codes, RowInts x) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(to, codes, x);
#else
  return _mm256_dpbusd_avx_epi32(to, codes, x);
#endif
}
#else
constexpr bool kSumsFours = false;
inline RowInts add_fours(RowInts to, RowInts codes, RowInts x) {
  return EASYDEL_ROWS(add_epi16)(to, EASYDEL_ROWS(maddubs_epi16)(codes, x));
}
#endif
inline RowInts add_pairs(RowInts to, RowInts pairs) {
  return EASYDEL_ROWS(add_epi32)(to, EASYDEL_ROWS(madd_epi16)(pairs, EASYDEL_ROWS(set1_epi16)(1)));
}
// The nibbles of the rows' 16 bytes: four of each row in a register, first the low ones, then the high ones.
inline void write_block(const uint8_t* const* rows, int64_t at, uint8_t* to) {
  RowInts part[4];  // of each four rows one
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto of = [&](int r) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r + i] + at)); };
#if defined(__AVX512F__)
    part[i] = parts(of(0), of(4), of(8), of(12));
#else
    part[i] = parts(of(0), of(4));
#endif
  }
  const RowInts a = EASYDEL_ROWS(unpacklo_epi32)(part[0], part[1]), b = EASYDEL_ROWS(unpacklo_epi32)(part[2], part[3]);
  const RowInts c = EASYDEL_ROWS(unpackhi_epi32)(part[0], part[1]), d = EASYDEL_ROWS(unpackhi_epi32)(part[2], part[3]);
  const RowInts fours[4] = {EASYDEL_ROWS(unpacklo_epi64)(a, b), EASYDEL_ROWS(unpackhi_epi64)(a, b),
                            EASYDEL_ROWS(unpacklo_epi64)(c, d), EASYDEL_ROWS(unpackhi_epi64)(c, d)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    write_nibbles(to + i * 4 * kRowLanes, fours[i]);
    write_nibbles(to + (i + 4) * 4 * kRowLanes, EASYDEL_ROWS(srli_epi16)(fours[i], 4));
  }
}
#undef EASYDEL_ROWS

inline Dots add_products(Dots to, const uint8_t* nibbles, const int8_t* x) {
  const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(nibbles)));
  const __m256i codes = _mm256_and_si256(_mm256_srlv_epi64(bytes, _mm256_set_epi64x(4, 4, 0, 0)), _mm256_set1_epi8(15));
  return {products(to.a, codes, thirty_two(x))};
}
inline int32_t sum(Dots x) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x.a), _mm256_extracti128_si256(x.a, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

struct DotSums {
  __m256 a;
};
inline DotSums no_sums() { return {_mm256_setzero_ps()}; }
inline DotSums add_scaled(DotSums to, Dots x, float x_scale, float scale) {
  const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(x.a), _mm256_set1_ps(x_scale));
  return {_mm256_fmadd_ps(scaled, _mm256_set1_ps(scale), to.a)};
}
inline float sum(DotSums x) { return sum_of_eight(x.a); }

#else

constexpr int32_t kOffset = 0;
using Dots = int32_t;
inline Dots start(int32_t value) { return value; }
inline Dots add_products(Dots to, const int8_t* codes, const int8_t* x) {
  for (int64_t i = 0; i < 32; ++i) to += codes[i] * x[i];
  return to;
}
inline Dots add_products(Dots to, const uint8_t* nibbles, const int8_t* x) {
  for (int64_t i = 0; i < 16; ++i) to += (nibbles[i] & 15) * x[i] + (nibbles[i] >> 4) * x[16 + i];
  return to;
}
inline int32_t sum(Dots x) { return x; }
using DotSums = float;
inline DotSums no_sums() { return 0; }
inline DotSums add_scaled(DotSums to, Dots x, float x_scale, float scale) {
  return to + static_cast<float>(x) * x_scale * scale;
}
inline float sum(DotSums x) { return x; }

#endif

}  // namespace
}  // namespace easydel::operations::kernels
