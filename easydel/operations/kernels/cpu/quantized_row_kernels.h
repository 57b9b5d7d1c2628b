// Packed rows times a few vectors of floats, bound by memory bandwidth. Included by
// quantized_kernels.cpp.in only.
#pragma once

#include "easydel/operations/kernels/cpu/panel_kernels.h"
#include "easydel/operations/kernels/cpu/quantized_kernels.h"
#include "easydel/operations/kernels/cpu/quantized_lanes.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

// The prefetch distance: hardware prefetchers are too short-sighted when codes are unpacked.
constexpr int64_t kPrefetchBytes = 4096;
inline void prefetch(const void* from) { __builtin_prefetch(static_cast<const char*>(from) + kPrefetchBytes); }

// The scales of rows [begin, end), in place where they are floats, otherwise in `scratch`.
inline const float* scales_of(const GroupScales& scales, int64_t begin, int64_t end, float* scratch) {
  const int64_t first = begin * scales.groups, count = (end - begin) * scales.groups;
  // Prefetches those of the rows that most likely come next: the hardware would not fetch them in time.
  const int64_t size = scales.kind == GroupScales::Kind::kFloat32   ? 4
                       : scales.kind == GroupScales::Kind::kFloat16 ? 2
                                                                    : 1;
  const char* next = static_cast<const char*>(scales.values) + (first + count) * size;
  for (int64_t line = 0; line < count * size; line += 64) __builtin_prefetch(next + line);
  switch (scales.kind) {
    case GroupScales::Kind::kFloat32: return static_cast<const float*>(scales.values) + first;
    case GroupScales::Kind::kFloat16: return load(static_cast<const f16*>(scales.values) + first, scratch, count);
    case GroupScales::Kind::kNested: break;
  }
  const uint8_t* index = static_cast<const uint8_t*>(scales.values) + first;
  for (int64_t i = 0; i < count;) {
    const int64_t block = (first + i) / scales.outer_block;
    const int64_t left = (block + 1) * scales.outer_block - first, stop = left < count ? left : count;
    const float outer = scales.outer[block];
    for (; i < stop; ++i) scratch[i] = scales.map[index[i]] * outer;
  }
  // A separate loop, so that the product is rounded first, as in bitsandbytes.
  for (int64_t i = 0; i < count; ++i) scratch[i] += scales.offset;
  return scratch;
}

// Rows and vectors that are multiplied at a time: as many as fit in registers, so that weights and x are reused. One
// vector is multiplied row by row: memory is then read in one stream, which matters more.
#if defined(__AVX512F__)
constexpr int kRows = 4, kVectors = 4;
#else
constexpr int kRows = 1, kVectors = 4;
#endif

#if defined(EASYDEL_PANELS)
// Fewer vectors are multiplied by weights in registers.
constexpr int64_t kPanelVectors = 6;

// What the next panel unpacks is fetched while this one is multiplied.
inline void prefetch_next_panel(const void* from, int64_t row_bytes) {
  __builtin_prefetch(static_cast<const char*>(from) + kPanelRows * row_bytes);
}
#endif

// f(first row, how many, first vector, how many), the numbers as constants.
template <class F>
inline void in_blocks(int64_t begin, int64_t end, int64_t vectors, const F& f) {
  int64_t row = begin;
  if (vectors == 1) {
    for (; row < end; ++row) f(row, Constant<1>(), 0, Constant<1>());
    return;
  }
  const auto some_rows = [&](int64_t row, auto count) {
    int64_t v = 0;
    for (; v + kVectors <= vectors; v += kVectors) f(row, count, v, Constant<kVectors>());
    for (; v + 2 <= vectors; v += 2) f(row, count, v, Constant<2>());
    if (v < vectors) f(row, count, v, Constant<1>());
  };
  for (; row + kRows <= end; row += kRows) some_rows(row, Constant<kRows>());
  for (; row < end; ++row) some_rows(row, Constant<1>());
}

inline void put(const PackedArgs& args, int64_t v, int64_t row, float value) {
  args.y[v * args.y_row + row] = args.bias ? value + args.bias[row] : value;
}

template <int R, int V>
struct Sums {
  Floats of[R][V];
  Sums() {
    for (auto& row : of)
      for (Floats& s : row) s = zeros();
  }
};

// `count` int8 codes of each of R rows, which are `width` apart, from index i on.
template <int R, int V>
inline void add_int8(Sums<R, V>& sums, const int8_t* w, const float* x, int64_t width, int64_t i) {
  if constexpr (R == 1) {  // x is used once: straight from memory, as there are few registers
    const Floats weights = read(w + i);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums.of[0][v] = add_product(weights, read(x + v * width + i), sums.of[0][v]);
    return;
  }
  Floats values[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) values[v] = read(x + v * width + i);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const Floats weights = read(w + r * width + i);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums.of[r][v] = add_product(weights, values[v], sums.of[r][v]);
  }
}

#if defined(__AVX512F__)
// One row with one vector, eight codes at a time: wider registers are slower where codes are widened (Zen 4: by 15 %).
inline float int8_dot(const int8_t* w, const float* x, int64_t width) {
  constexpr int kChains = 8;
  __m256 sums[kChains] = {};
  const auto add = [&](int c, int64_t i) __attribute__((always_inline)) {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(w + i));
    sums[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), _mm256_loadu_ps(x + i), sums[c]);
  };
  int64_t i = 0;
  for (; i + 8 * kChains <= width; i += 8 * kChains) {
    prefetch(w + i);
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) add(c, i + 8 * c);
  }
  for (; i + 8 <= width; i += 8) add(0, i);
#pragma GCC unroll 3
  for (int half = kChains / 2; half > 0; half /= 2)
    for (int c = 0; c < half; ++c) sums[c] = _mm256_add_ps(sums[c], sums[c + half]);
  float total = _mm512_reduce_add_ps(_mm512_zextps256_ps512(sums[0]));
  for (; i < width; ++i) total += static_cast<float>(w[i]) * x[i];
  return total;
}
#endif

#if defined(EASYDEL_PANELS)
inline void add_to(const PackedArgs& args, int64_t v, int64_t row, float value, bool is_first) {
  if (is_first)
    put(args, v, row, value);
  else
    args.y[v * args.y_row + row] += value;
}
#endif

void int8_times_float(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const float* scales = scales_of(args.scales, begin, end, scratch);
  const int64_t width = args.width;
#if defined(EASYDEL_PANELS)
  if (args.vectors >= kPanelVectors) {
    multiply_panels(
        args.x, width, args.vectors, kLanes, begin, end,
        [&](int64_t row, int64_t from, int64_t to, float* out) {
          const int8_t* w = static_cast<const int8_t*>(args.codes) + row * width;
          int64_t i = from;
          for (; i + kLanes <= to; i += kLanes) {
            prefetch_next_panel(w + i, width);
            write(out + (i - from), read(w + i));
          }
          for (; i < to; ++i) out[i - from] = static_cast<float>(w[i]);
        },
        [&](int64_t v, int64_t row, float sum, bool is_first) {
          add_to(args, v, row, sum * (scales[row - begin] / 127.0f), is_first);
        });
    return;
  }
#endif
#if defined(__AVX512F__)
  if (args.vectors == 1) {
    for (int64_t row = begin; row < end; ++row) {
      const float total = int8_dot(static_cast<const int8_t*>(args.codes) + row * width, args.x, width);
      put(args, 0, row, total * (scales[row - begin] / 127.0f));
    }
    return;
  }
#endif
  in_blocks(begin, end, args.vectors, [&](int64_t row, auto rows, int64_t first, auto vectors) {
    const int8_t* w = static_cast<const int8_t*>(args.codes) + row * width;
    const float* x = args.x + first * width;
    constexpr int kBlock = rows.value * vectors.value;
    constexpr int kChains = kBlock == 1 ? 4 : kBlock == 2 ? 2 : 1;  // to hide the latency of additions
    Sums<rows.value, vectors.value> chains[kChains];
    auto& sums = chains[0];
    int64_t i = 0;
    for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int r = 0; r < rows.value; ++r) prefetch(w + r * width + i);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) add_int8(chains[c % kChains], w, x, width, i + c * kLanes);
    }
    for (; i + kLanes <= width; i += kLanes) add_int8(sums, w, x, width, i);
    for (int r = 0; r < rows.value; ++r) {
      for (int v = 0; v < vectors.value; ++v) {
        for (int c = 1; c < kChains; ++c) sums.of[r][v] = sums.of[r][v] + chains[c].of[r][v];
        float total = sum(sums.of[r][v]);
        for (int64_t j = i; j < width; ++j) total += static_cast<float>(w[r * width + j]) * x[v * width + j];
        put(args, first + v, row + r, total * (scales[row - begin + r] / 127.0f));
      }
    }
  });
}

// A group of one row, with one vector: the sum over the group is scaled.
template <class Codes>
inline void add_group(Sums<1, 1>& sums, const Codes& values, const uint8_t* w, int64_t, const float* scale, int64_t,
                      const float* x, int64_t, int64_t group) {
  Floats low = zeros(), high = zeros();
  for (int64_t i = 0; i < group; i += kNibbleBlock) {
    prefetch(w + i / 2);
    const Block block = look_up(values, w + i / 2);
    low = add_product(block.low, read(x + i), low);
    high = add_product(block.high, read(x + i + kLanes), high);
  }
  sums.of[0][0] = add_product(low + high, all(*scale * Codes::kUnit), sums.of[0][0]);
}

// With more of them the weights are scaled: that is less work, and takes fewer registers.
template <int R, int V, class Codes>
inline void add_group(Sums<R, V>& sums, const Codes& values, const uint8_t* w, int64_t row_bytes, const float* scales,
                      int64_t groups, const float* x, int64_t width, int64_t group) {
  for (int64_t i = 0; i < group; i += kNibbleBlock) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      prefetch(w + r * row_bytes + i / 2);
      const Block block = look_up(values, w + r * row_bytes + i / 2);
      const Floats scale = all(scales[r * groups] * Codes::kUnit), low = block.low * scale, high = block.high * scale;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums.of[r][v] = add_product(low, read(x + v * width + i), sums.of[r][v]);
        sums.of[r][v] = add_product(high, read(x + v * width + i + kLanes), sums.of[r][v]);
      }
    }
  }
}

template <class Codes>
inline void nibbles_times_float(const Codes& values, const PackedArgs& args, int64_t begin, int64_t end,
                                float* scratch) {
  const float* scales = scales_of(args.scales, begin, end, scratch);
  const int64_t width = args.width, groups = args.scales.groups;
#if defined(EASYDEL_PANELS)
  if (args.vectors >= kPanelVectors) {
    const int64_t group = width / groups;
    multiply_panels(
        args.x, width, args.vectors, kNibbleBlock, begin, end,
        [&](int64_t row, int64_t from, int64_t to, float* out) {
          const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * width / 2;
          const float* own = scales + (row - begin) * groups;
          for (int64_t i = from; i < to; out += kNibbleBlock, i += kNibbleBlock) {
            prefetch_next_panel(w + i / 2, width / 2);
            const Block block = look_up(values, w + i / 2);
            const Floats scale = all(own[i / group] * Codes::kUnit);
            write(out, block.low * scale);
            write(out + kLanes, block.high * scale);
          }
        },
        [&](int64_t v, int64_t row, float sum, bool is_first) { add_to(args, v, row, sum, is_first); });
    return;
  }
#endif
  in_blocks(begin, end, args.vectors, [&](int64_t row, auto rows, int64_t first, auto vectors) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * width / 2;
    const float* own = scales + (row - begin) * groups;
    const float* x = args.x + first * width;
    Sums<rows.value, vectors.value> sums;
    // A constant size lets the compiler unroll the most common groups.
    const auto all_groups = [&](int64_t group) __attribute__((always_inline)) {
      for (int64_t g = 0; g < groups; ++g)
        add_group(sums, values, w + g * group / 2, width / 2, own + g, groups, x + g * group, width, group);
    };
    if (width == 32 * groups)
      all_groups(32);
    else if (width == 64 * groups)
      all_groups(64);
    else
      all_groups(width / groups);
    for (int r = 0; r < rows.value; ++r)
      for (int v = 0; v < vectors.value; ++v) put(args, first + v, row + r, sum(sums.of[r][v]));
  });
}

void nibbles_times_float(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  if (args.table)
    nibbles_times_float(Table(args.table), args, begin, end, scratch);
  else
    nibbles_times_float(Centred(), args, begin, end, scratch);
}

void unpack_int8(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, ++scales) {
    const int8_t* w = static_cast<const int8_t*>(args.codes) + row * args.width;
    const float scale = *scales / 127.0f;
    float* y = args.y + (row - begin) * args.width;
#pragma omp simd
    for (int64_t i = 0; i < args.width; ++i) y[i] = static_cast<float>(w[i]) * scale;
  }
}

template <class Codes>
inline void unpack_nibbles(const Codes& values, const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const int64_t group = args.width / args.scales.groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, scales += args.scales.groups) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
    float* y = args.y + (row - begin) * args.width;
    for (int64_t g = 0; g < args.scales.groups; ++g) {
      const Floats scale = all(scales[g] * Codes::kUnit);
      for (int64_t i = g * group; i < (g + 1) * group; i += kNibbleBlock) {
        const Block block = look_up(values, w + i / 2);
        write(y + i, block.low * scale);
        write(y + i + kLanes, block.high * scale);
      }
    }
  }
}

void unpack_nibbles(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  if (args.table)
    unpack_nibbles(Table(args.table), args, begin, end, scratch);
  else
    unpack_nibbles(Centred(), args, begin, end, scratch);
}

void part_pairs(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kNibbleBlock) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) {
      to[i + j] = from[i + 2 * j + 1];
      to[i + kLanes + j] = from[i + 2 * j];
    }
  }
}

void join_pairs(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kNibbleBlock) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) {
      to[i + 2 * j + 1] = from[i + j];
      to[i + 2 * j] = from[i + kLanes + j];
    }
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
