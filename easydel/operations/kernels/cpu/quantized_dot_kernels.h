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

#if defined(__AVX2__)
// Blocks of 32 nibbles that share a register, of groups of one or two blocks. Their 16 bytes stand in a row, so that
// the low nibbles of a register are the first halves of its blocks, and the high ones the second; x is put into that
// order.
constexpr int kBlocks = 2;
inline __m256 add_blocks(__m256 to, __m256i bytes, const int8_t* x, const float* scales) {
  const __m256i fifteen = _mm256_set1_epi8(15);
  const __m256i low = _mm256_and_si256(bytes, fifteen), high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), fifteen);
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
  const __m256i whole = products(products(_mm256_setzero_si256(), low, thirty_two(x)), high, thirty_two(x + 32));
#else
  const __m256i pairs =  // at most 4 * 15 * 127
      _mm256_add_epi16(_mm256_maddubs_epi16(low, thirty_two(x)), _mm256_maddubs_epi16(high, thirty_two(x + 32)));
  const __m256i whole = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
  double two;
  __builtin_memcpy(&two, scales, sizeof two);
  const __m256i lanes = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m256 scale = _mm256_permutevar_ps(_mm256_castpd_ps(_mm256_set1_pd(two)), lanes);
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scale, to);
}
constexpr int64_t kBlockBytes = 16 * kBlocks, kOrderedX = 32 * kBlocks;

// x in the order of the registers, with zeros behind its end.
inline void order_x(const int8_t* x, int64_t width, int8_t* to) {
  for (int64_t at = 0; at < width; at += kOrderedX, to += kOrderedX) {
    for (int64_t b = 0; b < kBlocks; ++b) {
      const bool inside = at + b * kNibbleBlock < width;
      for (int64_t half = 0; half < 2; ++half) {
        int8_t* const own = to + half * kBlockBytes + 16 * b;
        if (inside)
          __builtin_memcpy(own, x + at + b * kNibbleBlock + 16 * half, 16);
        else
          __builtin_memset(own, 0, 16);
      }
    }
  }
}

// The products of both scales, one for each block of up to eight groups; what unsigned codes add is subtracted.
template <int kPer>
inline __m256 scales_of_blocks(float* to, const float* scales, const float* x_scales, const int32_t* starts,
                               int64_t groups, __m256 sums) {
  alignas(32) static constexpr int32_t kUsed[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  const __m256i used = thirty_two(kUsed + (groups < 8 ? 8 - groups : 0));
  const __m256 scale = _mm256_mul_ps(_mm256_maskload_ps(scales, used), _mm256_maskload_ps(x_scales, used));
  if constexpr (kPer == 1) {
    _mm256_store_ps(to, scale);
  } else {
    const __m256 low = _mm256_unpacklo_ps(scale, scale), high = _mm256_unpackhi_ps(scale, scale);
    _mm256_store_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_store_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(_mm256_maskload_epi32(starts, used)), sums);
}

template <int kPer>
inline float blocks_dot(const uint8_t* w, const float* scales, const int8_t* ordered, const float* x_scales,
                        const int32_t* starts, int64_t groups) {
  constexpr int64_t kGroups = 64;
  alignas(64) float both[kGroups * kPer];
  __m256 corrections = _mm256_setzero_ps();
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t first = 0; first < groups; first += kGroups) {
    const int64_t count = groups - first < kGroups ? groups - first : kGroups, bytes = count * kPer * 16;
    for (int64_t g = 0; g < count; g += 8)
      corrections = scales_of_blocks<kPer>(both + g * kPer, scales + first + g, x_scales + first + g,
                                           starts + first + g, count - g, corrections);
    const uint8_t* codes = w + first * kPer * 16;
    const int8_t* x = ordered + first * kPer * 32;
    int64_t at = 0;
    for (; at + 2 * kBlockBytes <= bytes; at += 2 * kBlockBytes) {
      prefetch(codes + at);
      sums[0] = add_blocks(sums[0], thirty_two(codes + at), x + 2 * at, both + at / 16);
      const int64_t next = at + kBlockBytes;
      sums[1] = add_blocks(sums[1], thirty_two(codes + next), x + 2 * next, both + next / 16);
    }
    if (at + kBlockBytes <= bytes) {
      sums[0] = add_blocks(sums[0], thirty_two(codes + at), x + 2 * at, both + at / 16);
      at += kBlockBytes;
    }
    if (at < bytes) {  // one block alone
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + at));
      sums[1] = add_blocks(sums[1], _mm256_zextsi128_si256(half), x + 2 * at, both + at / 16);
    }
  }
  return sum_of_eight(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), corrections));
}

template <int kPer>
inline void blocks_times_int8(const PackedArgs& args, const float* scales, int64_t begin, int64_t end) {
  alignas(64) int8_t ordered[kLongestRow];
  const int64_t groups = args.scales.groups;
  for (int64_t v = 0; v < args.vectors; ++v) {
    order_x(args.x_codes + v * args.width, args.width, ordered);
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
      put(args, v, row,
          blocks_dot<kPer>(w, scales + (row - begin) * groups, ordered, args.x_scales + v * groups,
                           args.x_starts + v * groups, groups));
    }
  }
}
#endif

// Groups of other lengths. Four groups at a time, to hide the latency of additions.
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

#if defined(__AVX2__)
// Several vectors: the nibbles of kCodeRows rows and a part of their columns are unpacked into a panel, in which four
// codes of each of kRowLanes rows are neighbours, so that a register of them is multiplied by four of x and sums need
// not be added across lanes.
constexpr int64_t kCodeRows = 32, kCodeColumns = 1024;
constexpr int kRegisters = 2, kCodeVectors = kRowLanes == 16 ? 6 : 3;  // that are multiplied at a time
constexpr int64_t kLeastPanelVectors = 3;
constexpr int64_t kMostRoundedVectors = INT64_MAX;

struct CodePanel {
  alignas(64) uint8_t codes[kCodeRows * kCodeColumns];
  alignas(64) float scales[kCodeRows * kCodeColumns / kNibbleBlock];
  alignas(64) float bias[kCodeRows];
  static constexpr int64_t kCodes = kRowLanes * kCodeColumns, kScales = kCodes / kNibbleBlock;  // of a register's rows
};

// to[i * kRowLanes + lane] = rows[lane][i]
inline void transpose(const float* const* rows, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
#pragma GCC unroll 4
    for (int lane = 0; lane < kRowLanes; lane += 4) {
      __m128 a = _mm_loadu_ps(rows[lane] + i), b = _mm_loadu_ps(rows[lane + 1] + i);
      __m128 c = _mm_loadu_ps(rows[lane + 2] + i), d = _mm_loadu_ps(rows[lane + 3] + i);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* own = to + i * kRowLanes + lane;
      _mm_store_ps(own, a);
      _mm_store_ps(own + kRowLanes, b);
      _mm_store_ps(own + 2 * kRowLanes, c);
      _mm_store_ps(own + 3 * kRowLanes, d);
    }
  }
  for (; i < count; ++i)
    for (int64_t lane = 0; lane < kRowLanes; ++lane) to[i * kRowLanes + lane] = rows[lane][i];
}

// Columns [from, to) of some rows; `scales` are those of all rows and columns. Rows behind the last repeat it.
inline void unpack_panel(const PackedArgs& args, const float* scales, int64_t row, int64_t rows, int64_t from,
                         int64_t to, CodePanel& panel) {
  const int64_t groups = args.scales.groups, group = args.width / groups, row_bytes = args.width / 2;
  const int64_t first = from / group, count = (to + group - 1) / group - first;
  // The registers that are multiplied together are unpacked together.
  for (int64_t r = 0; r < rows || r % (kRegisters * kRowLanes) != 0; r += kRowLanes) {
    const uint8_t* w[kRowLanes];
    const float* of_rows[kRowLanes];
    for (int64_t lane = 0; lane < kRowLanes; ++lane) {
      const int64_t own = r + lane < rows ? r + lane : rows - 1;
      w[lane] = static_cast<const uint8_t*>(args.codes) + (row + own) * row_bytes + from / 2;
      of_rows[lane] = scales + own * groups + first;
    }
    transpose(of_rows, count, panel.scales + r * kCodeColumns / kNibbleBlock);
    uint8_t* out = panel.codes + r * kCodeColumns;
    for (int64_t at = 0; at < (to - from) / 2; at += kNibbleBlock / 2) {
      if (at % 64 == 0)
        for (const uint8_t* from_row : w) __builtin_prefetch(from_row + at + kCodeRows * row_bytes);
      write_block(w, at, out);
      out += kNibbleBlock * kRowLanes;
    }
  }
}

// R registers of rows, V vectors and one block of columns.
template <int R, int V>
inline void multiply_panel_block(const uint8_t* codes, const int8_t* x, int64_t width, RowInts (&sums)[R][V]) {
#pragma GCC unroll 8
  for (int four = 0; four < 8; ++four) {
    RowInts w[R];
#pragma GCC unroll 2
    for (int k = 0; k < R; ++k) w[k] = row_ints(codes + k * CodePanel::kCodes + four * 4 * kRowLanes);
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      int32_t of_x;
      __builtin_memcpy(&of_x, x + j * width + 4 * four, sizeof of_x);
      const RowInts same = in_all_rows(of_x);
#pragma GCC unroll 2
      for (int k = 0; k < R; ++k) sums[k][j] = add_fours(sums[k][j], w[k], same);
    }
  }
}

// The same of columns [from, to).
template <int R, int V>
inline __attribute__((always_inline)) void multiply_panel(const PackedArgs& args, const CodePanel& panel, int64_t r,
                                                          int64_t v, int64_t from, int64_t to, int64_t group,
                                                          RowFloats (&sums)[R][V]) {
  const int64_t groups = args.x_groups;
  const int8_t* x = args.x_codes + v * args.width;
  const uint8_t* codes = panel.codes + r * kCodeColumns;
  const float* scales = panel.scales + r * kCodeColumns / kNibbleBlock;
  for (int64_t g = from / group, i = from; i < to; ++g, scales += kRowLanes) {
    const bool is_begun = i != g * group;
    RowInts dots[R][V];
    const auto add_block = [&](bool is_first) __attribute__((always_inline)) {
      RowInts start[V];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j)
        start[j] = in_all_rows(is_first && !is_begun ? args.x_starts[(v + j) * groups + g] : 0);
      RowInts added[R][V];
#pragma GCC unroll 2
      for (int k = 0; k < R; ++k)
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) added[k][j] = !kSumsFours ? in_all_rows(0) : is_first ? start[j] : dots[k][j];
      multiply_panel_block(codes, x + i, args.width, added);
#pragma GCC unroll 2
      for (int k = 0; k < R; ++k)
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j)
          dots[k][j] = kSumsFours ? added[k][j] : add_pairs(is_first ? start[j] : dots[k][j], added[k][j]);
      codes += kNibbleBlock * kRowLanes;
      i += kNibbleBlock;
    };
    add_block(true);
    if (group != kNibbleBlock)
      for (const int64_t stop = (g + 1) * group < to ? (g + 1) * group : to; i < stop;) add_block(false);
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const RowFloats scale = in_all_rows(args.x_scales[(v + j) * groups + g]);
#pragma GCC unroll 2
      for (int k = 0; k < R; ++k)
        sums[k][j] = add_scaled_rows(sums[k][j], dots[k][j], scale, row_floats(scales + k * CodePanel::kScales));
    }
  }
}

void nibble_panels_times_int8(const PackedArgs& args, const float* scales, int64_t begin, int64_t end) {
  CodePanel panel;
  const int64_t group = args.width / args.scales.groups, parts = (args.width + kCodeColumns - 1) / kCodeColumns;
  const int64_t step = (args.width / kNibbleBlock + parts - 1) / parts * kNibbleBlock;
  const int64_t chunks = (args.vectors + kCodeVectors - 1) / kCodeVectors;
  for (int64_t first = begin; first < end; first += kCodeRows) {
    const int64_t rows = end - first < kCodeRows ? end - first : kCodeRows;
    for (int64_t r = 0; r < kCodeRows; ++r) panel.bias[r] = args.bias && r < rows ? args.bias[first + r] : 0.0f;
    for (int64_t from = 0; from < args.width; from += step) {
      const int64_t to = from + step < args.width ? from + step : args.width;
      unpack_panel(args, scales + (first - begin) * args.scales.groups, first, rows, from, to, panel);
      const auto block = [&](auto r_count, auto v_count, int64_t r, int64_t v) __attribute__((always_inline)) {
        RowFloats sums[r_count.value][v_count.value];
        for (auto& of_register : sums)
          for (RowFloats& s : of_register) s = in_all_rows(0.0f);
        // A constant size lets the compiler unroll the most common group.
        if (group == kNibbleBlock)
          multiply_panel(args, panel, r, v, from, to, kNibbleBlock, sums);
        else
          multiply_panel(args, panel, r, v, from, to, group, sums);
        for (int k = 0; k < r_count.value; ++k) {
          const int64_t own = r + k * kRowLanes, left = rows - own;
          for (int j = 0; j < v_count.value && left > 0; ++j) {
            float* y = args.y + (v + j) * args.y_row + first + own;
            const float* start = from == 0 ? panel.bias + own : y;
            if (left >= kRowLanes) {
              write_rows(y, plus(sums[k][j], row_floats(start)));
              continue;
            }
            float some[kRowLanes] = {};
            for (int64_t i = 0; i < left; ++i) some[i] = start[i];
            write_rows(some, plus(sums[k][j], row_floats(some)));
            for (int64_t i = 0; i < left; ++i) y[i] = some[i];
          }
        }
      };
      const auto all_rows = [&](auto v_count, int64_t v) __attribute__((always_inline)) {
        for (int64_t r = 0; r < rows; r += kRegisters * kRowLanes) block(Constant<kRegisters>(), v_count, r, v);
      };
      for (int64_t c = 0; c < chunks; ++c) {
        const int64_t v = args.vectors * c / chunks;
        switch (args.vectors * (c + 1) / chunks - v) {
          case 6: all_rows(Constant<6>(), v); break;
          case 5: all_rows(Constant<5>(), v); break;
          case 4: all_rows(Constant<4>(), v); break;
          case 3: all_rows(Constant<3>(), v); break;
          case 2: all_rows(Constant<2>(), v); break;
          default: all_rows(Constant<1>(), v);
        }
      }
    }
  }
}
#endif

#if !defined(__AVX2__)
constexpr int64_t kMostRoundedVectors = kMaxVectors;
#endif

void nibbles_times_int8(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const int64_t groups = args.scales.groups, group = args.width / groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
#if defined(__AVX2__)
  if (args.vectors >= kLeastPanelVectors) return nibble_panels_times_int8(args, scales, begin, end);
  if (group == kNibbleBlock) return blocks_times_int8<1>(args, scales, begin, end);
  if (group == 2 * kNibbleBlock) return blocks_times_int8<2>(args, scales, begin, end);
#endif
  for (int64_t row = begin; row < end; ++row, scales += groups) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
    for (int64_t v = 0; v < args.vectors; ++v) {
      const int8_t* x = args.x_codes + v * args.width;
      put(args, v, row,
          nibble_dots(w, scales, x, args.x_scales + v * groups, args.x_starts + v * groups, groups, group));
    }
  }
}

#if defined(__AVX2__)
// The largest |x| of 32, NaN if one is not finite: without a sign, floats are ordered as integers.
inline float largest_of_block(const float* x) {
  const auto part = [&](int i) { return _mm256_and_si256(thirty_two(x + 8 * i), _mm256_set1_epi32(0x7fffffff)); };
  const __m256i eight = _mm256_max_epi32(_mm256_max_epi32(part(0), part(1)), _mm256_max_epi32(part(2), part(3)));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  const int32_t bits = _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
  return bits < 0x7f800000 ? bits_to_float(static_cast<uint32_t>(bits)) : __builtin_nanf("");
}
// Writes 32 codes and adds them to `total`.
inline void quantize_block(const float* x, float inverse, int8_t* codes, __m256i& total) {
  __m256i part[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    part[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inverse)));
    total = _mm256_add_epi32(total, part[i]);
  }
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
  const __m256i in_order = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), in_order);
}
#endif

// Writes `count` codes, zeros without an x, and returns their sum.
inline int32_t quantize_some(const float* x, float inverse, int64_t count, int8_t* codes) {
  int32_t total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) {
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the last bits.
    const float shifted = (x ? x[i] : 0.0f) * inverse + 12582912.0f;
    const int32_t code = static_cast<int32_t>(float_to_bits(shifted) - 0x4b400000u);
    codes[i] = static_cast<int8_t>(code);
    total += code;
  }
  return total;
}

void quantize_rows(const QuantizeArgs& args, int64_t begin, int64_t end) {
  const int64_t group = args.width / args.groups;
  float of_row = 0;
  for (int64_t g = begin * args.groups; g < end * args.groups; ++g) {
    const float* x = args.x + g * group;
    int8_t* codes = args.codes + g * group;
    if (args.one_scale && g % args.groups == 0) of_row = largest_of(x, args.width);
    float largest = of_row;
#if defined(__AVX2__)
    if (!args.one_scale && group == kNibbleBlock)
      largest = largest_of_block(x);
    else
#endif
        if (!args.one_scale)
      largest = largest_of(x, group);
    const bool usable = largest > 1e-36f;  // else the scale is zero or a NaN
    const float inverse = usable ? 127.0f / largest : 0.0f;
    int32_t total = 0;
    int64_t i = 0;
#if defined(__AVX2__)
    if (usable) {
      Dots blocks = {_mm256_setzero_si256()};
      for (; i + 32 <= group; i += 32) quantize_block(x + i, inverse, codes + i, blocks.a);
      total = sum(blocks);
    }
#endif
    if (i < group) total += quantize_some(usable ? x + i : nullptr, inverse, group - i, codes + i);
    args.scales[g] = usable || largest != largest ? largest / 127.0f : 0.0f;
    args.starts[g] = -total * (args.for_nibbles ? 8 : kOffset);
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
