// The inner loops of reduce(), compiled once for each instruction set. Everything has internal linkage: the linker must
// not mix the copies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "easydel/sharding/collectives/reduce_table.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace easydel {
namespace {

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

template <class A>
bool is_nan(A value) {
  if constexpr (std::is_floating_point_v<A>) {
    return __builtin_isnan(value);
  } else {
    return false;
  }
}

inline float widen(bf16 value) { return __builtin_bit_cast(float, uint32_t{value.bits} << 16); }

inline float widen(f16 value) {
#ifdef __F16C__
  return _cvtsh_ss(value.bits);
#else
  const uint32_t sign = uint32_t{value.bits} >> 15 << 31;
  const uint32_t magnitude = value.bits & 0x7fffu;
  // Multiplying by 2^112 turns a half's exponent and its subnormals into a float's.
  const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
  const uint32_t bits = magnitude >= 0x7c00u ? (magnitude << 13) | 0x7f800000u : __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, bits | sign);
#endif
}

// To nearest, ties to even; NaNs are preserved.
inline void narrow(float value, bf16& out) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  out.bits = static_cast<uint16_t>(is_nan(value) ? 0x7fc0u : rounded);
}

inline void narrow(float value, f16& out) {
#ifdef __F16C__
  out.bits = _cvtss_sh(value, 0);
#else
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = bits >> 31 << 15;
  const float magnitude = __builtin_bit_cast(float, bits & 0x7fffffffu);
  uint32_t half = 0;
  if (!(magnitude < 65520.0f)) {
    half = is_nan(magnitude) ? 0x7e00u : 0x7c00u;
  } else if (magnitude < 0x1p-14f) {  // subnormal: adding 1/2 leaves the value, rounded, in the last bits
    half = __builtin_bit_cast(uint32_t, magnitude + 0.5f) - 0x3f000000u;
  } else {
    const uint32_t exact = bits & 0x7fffffffu;
    half = (exact + 0xfffu + ((exact >> 13) & 1u) - (112u << 23)) >> 13;
  }
  out.bits = static_cast<uint16_t>(sign | half);
#endif
}

template <class T>
T widen(T value)
  requires std::is_arithmetic_v<T>
{
  return value;
}
template <class T>
void narrow(T value, T& out)
  requires std::is_arithmetic_v<T>
{
  out = value;
}

struct Sum {
  template <class A>
  static A apply(A a, A b) {
    return static_cast<A>(a + b);
  }
};
struct Max {
  template <class A>
  static A apply(A a, A b) {
    return a > b || is_nan(a) ? a : b;
  }
};
struct Min {
  template <class A>
  static A apply(A a, A b) {
    return a < b || is_nan(a) ? a : b;
  }
};

constexpr int64_t kBlock = 2048;  // elements accumulated at a time, in the L1 cache

// The elements themselves if the loop below widens on the fly, else a widened copy.
template <class T>
const T* readable(const T* in, int64_t, float*) {
  return in;
}
template <class T, class A>
void store(const A* values, T* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) narrow(values[i], out[i]);
}

#ifdef __F16C__
// Compilers do not vectorize these conversions.
inline const float* readable(const f16* in, int64_t count, float* scratch) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(scratch + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  for (; i < count; ++i) scratch[i] = widen(in[i]);
  return scratch;
}
inline void store(const float* values, f16* out, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(values + i), 0));
  }
  for (; i < count; ++i) narrow(values[i], out[i]);
}
#endif

template <class T, class Op>
void reduce_loop(const ReduceBuffers& buffers, int64_t begin, int64_t end) {
  using A = decltype(widen(T()));
  A sums[kBlock];
  float scratch[2][kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    const auto in = [&](std::size_t r, float* copy) {
      return readable(static_cast<const T*>(buffers.ins[r]) + at, count, copy);
    };
    const auto* a = in(0, scratch[0]);
    if (buffers.ins.size() == 1) {
      for (int64_t i = 0; i < count; ++i) sums[i] = widen(a[i]);
    } else {
      const auto* b = in(1, scratch[1]);
      for (int64_t i = 0; i < count; ++i) sums[i] = Op::apply(widen(a[i]), widen(b[i]));
    }
    for (std::size_t r = 2; r < buffers.ins.size(); ++r) {
      const auto* next = in(r, scratch[0]);
      for (int64_t i = 0; i < count; ++i) sums[i] = Op::apply(sums[i], widen(next[i]));
    }
    T* first = static_cast<T*>(buffers.outs[0]) + at;
    store(sums, first, count);
    for (std::size_t r = 1; r < buffers.outs.size(); ++r) {
      std::memcpy(static_cast<T*>(buffers.outs[r]) + at, first, count * sizeof(T));
    }
  }
}

template <class T>
constexpr ReduceFunctions kFunctions = {reduce_loop<T, Sum>, reduce_loop<T, Max>, reduce_loop<T, Min>};

}  // namespace
}  // namespace easydel
