// Packed rows times a few vectors of int8, and the quantization of these vectors. Included only by
// quantized_kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/quantized_row_kernels.h"

namespace easydel::operations::kernels {
namespace {

// Of `count` int8 codes, those in whole blocks of 32.
inline Dots group_dots(Dots dots, const int8_t* w, const int8_t* x, int64_t count) {
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    prefetch(w + i);
    dots = add_products(dots, w + i, x + i);
    dots = add_products(dots, w + i + 32, x + i + 32);
  }
  for (; i + 32 <= count; i += 32) dots = add_products(dots, w + i, x + i);
  return dots;
}

void int8_times_int8(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const int64_t group = args.width / args.x_groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, ++scales) {
    const int8_t* w = static_cast<const int8_t*>(args.codes) + row * args.width;
    const float scale = *scales / 127.0f;
    for (int64_t v = 0; v < args.vectors; ++v) {
      const int8_t* x = args.x_codes + v * args.width;
      const float* x_scales = args.x_scales + v * args.x_groups;
      const int32_t* starts = args.x_starts + v * args.x_groups;
      if (args.x_groups == 1) {
        int32_t total = sum(group_dots(start(starts[0]), w, x, group));
        for (int64_t i = group / 32 * 32; i < group; ++i) total += (w[i] + kOffset) * x[i];
        put(args, v, row, static_cast<float>(total) * x_scales[0] * scale);
        continue;
      }
      DotSums sums = no_sums();
      for (int64_t g = 0; g < args.x_groups; ++g)
        sums = add_scaled(sums, group_dots(start(starts[g]), w + g * group, x + g * group, group), x_scales[g], scale);
      put(args, v, row, sum(sums));
    }
  }
}

#if defined(__AVX512VNNI__)
// Groups of 32, two in each register.
inline float nibble_dots_of_32(const uint8_t* w, const float* scales, const int8_t* x, const float* x_scales,
                               const int32_t* starts, int64_t groups) {
  const __m512i shifts = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0), fifteen = _mm512_set1_epi8(15);
  const __m512i halves = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  constexpr int64_t kGroups = 64;
  alignas(64) float both[kGroups];  // the products of both scales
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  const auto add = [&](__m256i bytes, __m512i codes_of_x, __m512 scale, __m512& to) __attribute__((always_inline)) {
    const __m512i twice = _mm512_castsi256_si512(bytes);
    const __m512i lanes = _mm512_shuffle_i64x2(twice, twice, 0x50);  // the first 16 bytes twice, then the others
    const __m512i codes = _mm512_and_si512(_mm512_srlv_epi64(lanes, shifts), fifteen);
    const __m512i dots = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, codes_of_x);
    to = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, to);
  };
  for (int64_t first = 0; first < groups; first += kGroups) {
    const int64_t count = groups - first < kGroups ? groups - first : kGroups;
    for (int64_t g = 0; g < count; g += 16) {
      const auto used = static_cast<__mmask16>(count - g < 16 ? (1U << (count - g)) - 1 : 0xffff);
      const __m512 scale = _mm512_mul_ps(_mm512_maskz_loadu_ps(used, scales + first + g),
                                         _mm512_maskz_loadu_ps(used, x_scales + first + g));
      _mm512_store_ps(both + g, scale);
      const __m512i start = _mm512_maskz_loadu_epi32(used, starts + first + g);
      sums[0] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(start), sums[0]);
    }
    const uint8_t* codes = w + first * 16;
    const int8_t* own_x = x + first * 32;
    int64_t g = 0;
    for (; g + 2 <= count; g += 2) {
      prefetch(codes + g * 16);
      double pair;
      __builtin_memcpy(&pair, both + g, sizeof pair);
      const __m512 scale = _mm512_permutexvar_ps(halves, _mm512_castpd_ps(_mm512_set1_pd(pair)));
      add(thirty_two(codes + g * 16), _mm512_loadu_si512(own_x + g * 32), scale, sums[1]);
    }
    if (g < count) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + g * 16));
      add(_mm256_zextsi128_si256(bytes), _mm512_zextsi256_si512(thirty_two(own_x + g * 32)), _mm512_set1_ps(both[g]),
          sums[0]);
    }
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
}
#endif

#if defined(__AVX2__)
// The scales of both, and what unsigned codes add, are multiplied eight groups at a time.
inline float nibble_dots(const uint8_t* w, const float* scales, const int8_t* x, const float* x_scales,
                         const int32_t* starts, int64_t groups, int64_t group) {
  constexpr int64_t kGroups = 64;
  alignas(32) float both[kGroups];
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  float rest = 0;
  for (int64_t first = 0; first < groups; first += kGroups) {
    const int64_t count = groups - first < kGroups ? groups - first : kGroups;
    int64_t g = 0;
    for (; g + 8 <= count; g += 8) {
      const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(scales + first + g), _mm256_loadu_ps(x_scales + first + g));
      _mm256_store_ps(both + g, scale);
      sums[0] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(thirty_two(starts + first + g)), sums[0]);
    }
    for (; g < count; ++g) {
      both[g] = scales[first + g] * x_scales[first + g];
      rest += both[g] * static_cast<float>(starts[first + g]);
    }
    const auto add = [&](__m256& to, int64_t at) __attribute__((always_inline)) {
      Dots dots = {_mm256_setzero_si256()};
      for (int64_t i = (first + at) * group; i < (first + at + 1) * group; i += kNibbleBlock) {
        prefetch(w + i / 2);
        dots = add_products(dots, w + i / 2, x + i);
      }
      to = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots.a), _mm256_broadcast_ss(both + at), to);
    };
    g = 0;
    for (; g + 4 <= count; g += 4) {  // to hide the latency of additions
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) add(sums[i], g + i);
    }
    for (; g < count; ++g) add(sums[0], g);
  }
  return sum_of_eight(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]))) + rest;
}
#else
// Four groups at a time, to hide the latency of additions.
inline float nibble_dots(const uint8_t* w, const float* scales, const int8_t* x, const float* x_scales,
                         const int32_t* starts, int64_t groups, int64_t group) {
  const auto add = [&](DotSums to, int64_t g) __attribute__((always_inline)) {
    Dots dots = start(starts[g]);
    for (int64_t i = g * group; i < (g + 1) * group; i += kNibbleBlock) {
      prefetch(w + i / 2);
      dots = add_products(dots, w + i / 2, x + i);
    }
    return add_scaled(to, dots, x_scales[g], scales[g]);
  };
  DotSums sums[4] = {no_sums(), no_sums(), no_sums(), no_sums()};
  int64_t g = 0;
  for (; g + 4 <= groups; g += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sums[i] = add(sums[i], g + i);
  }
  for (; g < groups; ++g) sums[0] = add(sums[0], g);
  return (sum(sums[0]) + sum(sums[1])) + (sum(sums[2]) + sum(sums[3]));
}
#endif

void nibbles_times_int8(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const int64_t groups = args.scales.groups, group = args.width / groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, scales += groups) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
    for (int64_t v = 0; v < args.vectors; ++v) {
      const int8_t* x = args.x_codes + v * args.width;
      const float* x_scales = args.x_scales + v * groups;
      const int32_t* starts = args.x_starts + v * groups;
      // A constant size lets the compiler unroll the most common groups.
#if defined(__AVX512VNNI__)
      const float in_pairs = group == 32 ? nibble_dots_of_32(w, scales, x, x_scales, starts, groups) : 0;
#else
      const float in_pairs = group == 32 ? nibble_dots(w, scales, x, x_scales, starts, groups, 32) : 0;
#endif
      const float y = group == 32   ? in_pairs
                      : group == 64 ? nibble_dots(w, scales, x, x_scales, starts, groups, 64)
                                    : nibble_dots(w, scales, x, x_scales, starts, groups, group);
      put(args, v, row, y);
    }
  }
}

void quantize_rows(const QuantizeArgs& args, int64_t begin, int64_t end) {
  const int64_t group = args.width / args.groups;
  float of_row = 0;
  for (int64_t g = begin * args.groups; g < end * args.groups; ++g) {
    const float* x = args.x + g * group;
    int8_t* codes = args.codes + g * group;
    if (args.one_scale && g % args.groups == 0) of_row = largest_of(x, args.width);
    const float largest = args.one_scale ? of_row : largest_of(x, group);
    const bool usable = largest > 1e-36f;  // else the scale is zero or a NaN
    const float inverse = usable ? 127.0f / largest : 0.0f;
    int32_t total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < group; ++i) {
      // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the last bits.
      const float shifted = (usable ? x[i] : 0.0f) * inverse + 12582912.0f;
      const int32_t code = static_cast<int32_t>(float_to_bits(shifted) - 0x4b400000u);
      codes[i] = static_cast<int8_t>(code);
      total += code;
    }
    args.scales[g] = usable || largest != largest ? largest / 127.0f : 0.0f;
    args.starts[g] = -total * (args.for_nibbles ? 8 : kOffset);
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
