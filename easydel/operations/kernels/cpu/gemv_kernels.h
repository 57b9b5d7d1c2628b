// Matrices times a few vectors, bound by memory bandwidth. Included only by kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/kernels.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

inline float wide(float value) { return value; }
inline double wide(double value) { return value; }
inline float wide(bf16 value) { return to_float(value); }
inline float wide(f16 value) {
#ifdef __F16C__
  return _cvtsh_ss(value.bits);
#else
  return to_float(value);
#endif
}

inline void put(float* to, float value) { *to = value; }
inline void put(double* to, double value) { *to = value; }
inline void put(bf16* to, float value) { *to = to_bf16(value); }
inline void put(f16* to, float value) { *to = to_f16(value); }

// Sixteen numbers in as many registers as the instruction set needs for them.
template <class A>
struct Lanes {
  static constexpr int64_t kCount = 16;
  typedef A Vector __attribute__((vector_size(kCount * sizeof(A))));
  Vector value = {};

  void add_product(const A* a, const A* b) {
    Vector x, y;
    __builtin_memcpy(&x, a, sizeof x);
    __builtin_memcpy(&y, b, sizeof y);
    value += x * y;
  }
  void add_product(const bf16* a, const A* b) {
    typedef uint16_t Bits __attribute__((vector_size(kCount * 2)));
    typedef uint32_t WideBits __attribute__((vector_size(kCount * 4)));
    Bits bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    const WideBits wide_bits = __builtin_convertvector(bits, WideBits) << 16;
    A x[kCount];
    __builtin_memcpy(x, &wide_bits, sizeof x);
    add_product(x, b);
  }
  void add_product(const f16* a, const A* b) {
    A x[kCount];
    add_product(load(a, x, kCount), b);
  }
  void add(const Lanes& other) { value += other.value; }
  A sum() const {
    A total = 0;
    for (int64_t i = 0; i < kCount; ++i) total += value[i];
    return total;
  }
};

#if defined(__AVX2__) && !defined(__AVX512F__)
// By hand: the compiler would widen sixteen elements one by one.
template <>
struct Lanes<float> {
  static constexpr int64_t kCount = 16;
  __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();

  static __m256 eight(const float* from) { return _mm256_loadu_ps(from); }
  static __m256 eight(const bf16* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m256 eight(const f16* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  template <class T>
  void add_product(const T* a, const float* b) {
    low = _mm256_fmadd_ps(eight(a), eight(b), low);
    high = _mm256_fmadd_ps(eight(a + 8), eight(b + 8), high);
  }
  void add(const Lanes& other) {
    low = _mm256_add_ps(low, other.low);
    high = _mm256_add_ps(high, other.high);
  }
  float sum() const { return sum_of_eight(_mm256_add_ps(low, high)); }
};
#endif

// The prefetch distance: some hardware prefetchers are too short-sighted, especially when elements are converted.
constexpr int64_t kPrefetchBytes = 4096;

// One row after the other: memory is read in one stream. Four accumulators hide the latency of additions.
template <class T>
inline acc_t<T> dot(const T* w, const acc_t<T>* x, int64_t width) {
  using A = acc_t<T>;
  constexpr int64_t kLanes = Lanes<A>::kCount;
  Lanes<A> a, b, c, d;
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    for (std::size_t line = 0; line < 4 * kLanes * sizeof(T); line += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(w + i) + kPrefetchBytes + line);
    a.add_product(w + i, x + i);
    b.add_product(w + i + kLanes, x + i + kLanes);
    c.add_product(w + i + 2 * kLanes, x + i + 2 * kLanes);
    d.add_product(w + i + 3 * kLanes, x + i + 3 * kLanes);
  }
  for (; i + kLanes <= width; i += kLanes) a.add_product(w + i, x + i);
  a.add(b);
  c.add(d);
  a.add(c);
  A sum = a.sum();
  for (; i < width; ++i) sum += wide(w[i]) * x[i];
  return sum;
}

template <class T>
void gemv(const GemvArgs& args, int64_t begin, int64_t end) {
  using A = acc_t<T>;
  const T* bias = static_cast<const T*>(args.bias);
  for (int64_t row = begin; row < end; ++row) {
    const T* w = static_cast<const T*>(args.weight) + row * args.width;
    for (int64_t v = 0; v < args.vectors; ++v) {  // the row stays in the cache for the vectors after the first
      const A sum = dot(w, static_cast<const A*>(args.x) + v * args.width, args.width);
      put(static_cast<T*>(args.y) + v * args.y_row + row, bias ? sum + wide(bias[row]) : sum);
    }
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
