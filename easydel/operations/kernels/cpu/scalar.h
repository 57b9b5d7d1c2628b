// Element types and elementary functions as plain code that compilers vectorize. Everything has internal linkage: the
// files that include this are compiled for several instruction sets, and the linker must not mix their copies.
#pragma once

#include <cmath>
#include <cstdint>
#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace easydel::operations::kernels {
namespace {

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

template <class T>
struct AccOf {
  using type = float;
};
template <>
struct AccOf<double> {
  using type = double;
};
template <class T>
using acc_t = typename AccOf<T>::type;

constexpr int64_t kChunk = 512;  // elements converted at a time

inline float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t float_to_bits(float value) { return __builtin_bit_cast(uint32_t, value); }

inline float to_float(bf16 value) { return bits_to_float(uint32_t{value.bits} << 16); }
// To nearest, ties to even; a NaN stays one.
inline bf16 to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<uint16_t>(value == value ? rounded : 0x7fc0u)};
}

inline float to_float(f16 value) {
  const uint32_t sign = uint32_t{value.bits} >> 15 << 31;
  const uint32_t magnitude = value.bits & 0x7fffu;
  // Multiplying by 2^112 turns a half's exponent and its subnormals into a float's.
  const float scaled = bits_to_float(magnitude << 13) * 0x1p112f;
  const float finite = magnitude >= 0x7c00u ? bits_to_float((magnitude << 13) | 0x7f800000u) : scaled;
  return bits_to_float(float_to_bits(finite) | sign);
}
inline f16 to_f16(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t sign = bits >> 31 << 15;
  const float magnitude = bits_to_float(bits & 0x7fffffffu);
  if (!(magnitude < 65520.0f)) return {static_cast<uint16_t>(sign | (magnitude == magnitude ? 0x7c00u : 0x7e00u))};
  if (magnitude < 0x1p-14f) {  // subnormal: adding 1/2 leaves the value, rounded, in the last bits
    return {static_cast<uint16_t>(sign | (float_to_bits(magnitude + 0.5f) - 0x3f000000u))};
  }
  const uint32_t m = float_to_bits(magnitude) - (112u << 23);
  return {static_cast<uint16_t>(sign | ((m + 0xfffu + ((m >> 13) & 1u)) >> 13))};
}

// max|x|, or a NaN where x is not finite.
inline float largest_of(const float* x, int64_t count) {
  float largest = 0, poison = 0;
#pragma omp simd reduction(max : largest) reduction(+ : poison)
  for (int64_t i = 0; i < count; ++i) {
    const float size = __builtin_fabsf(x[i]);
    largest = size > largest ? size : largest;
    poison += x[i] * 0.0f;
  }
  return poison == 0 ? largest : poison;
}

#if defined(__AVX2__)
inline float sum_of_eight(__m256 x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#endif

// Reads elements as acc: in place if the types are the same, otherwise through `scratch`.
inline const float* load(const float* from, float*, int64_t) { return from; }
inline const double* load(const double* from, double*, int64_t) { return from; }
inline const float* load(const bf16* from, float* scratch, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scratch[i] = to_float(from[i]);
  return scratch;
}
inline const float* load(const f16* from, float* scratch, int64_t count) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(scratch + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < count; ++i) scratch[i] = to_float(from[i]);
  return scratch;
}

// A buffer for acc values that store() then converts to elements.
inline float* target(float* to, float*) { return to; }
inline double* target(double* to, double*) { return to; }
inline float* target(bf16*, float* scratch) { return scratch; }
inline float* target(f16*, float* scratch) { return scratch; }

inline void store(float*, const float*, int64_t) {}
inline void store(double*, const double*, int64_t) {}
inline void store(bf16* to, const float* from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}
inline void store(f16* to, const float* from, int64_t count) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
#endif
  for (; i < count; ++i) to[i] = to_f16(from[i]);
}

// The value that an element of type T would hold.
template <class T>
inline acc_t<T> rounded(acc_t<T> value) {
  if constexpr (sizeof(T) == 2) {
    if constexpr (__is_same(T, bf16))
      return to_float(to_bf16(value));
    else
      return to_float(to_f16(value));
  } else {
    return value;
  }
}

// Cephes' polynomial on [-ln2/2, ln2/2]: within 2 ulp. Subnormal results are zero.
inline float exp_of(float given) {
  float x = given > -87.3f ? given : -87.3f;
  x = x < 88.3f ? x : 88.3f;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // the sum's last bits hold the rounded exponent
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t power = (float_to_bits(shifted) + 127u) << 23;
  const float result = p * bits_to_float(power);
  return given < -87.3f ? 0.0f : result;
}
inline double exp_of(double x) { return __builtin_exp(x); }

inline float tanh_of(float x) {
  const float magnitude = bits_to_float(float_to_bits(x) & 0x7fffffffu);
  const float large = 1.0f - 2.0f / (exp_of(2.0f * magnitude) + 1.0f);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = magnitude + magnitude * z * p;
  const float positive = magnitude < 0.625f ? small : large;
  return bits_to_float(float_to_bits(positive) | (float_to_bits(x) & 0x80000000u));
}
inline double tanh_of(double x) { return __builtin_tanh(x); }

template <class A>
inline A sigmoid_of(A x) {
  return A(1) / (A(1) + exp_of(-x));
}

}  // namespace
}  // namespace easydel::operations::kernels
