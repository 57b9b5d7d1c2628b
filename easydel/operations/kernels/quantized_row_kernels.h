// Packed rows times a few vectors, at the speed at which memory gives the codes. Included by quantized_kernels.cpp.in
// alone.
#pragma once

#include "easydel/operations/kernels/quantized_kernels.h"
#include "easydel/operations/kernels/quantized_lanes.h"
#include "easydel/operations/kernels/scalar.h"

namespace easydel::operations::kernels {
namespace {

// So far ahead of what is read: processors look less far on their own where codes are unpacked.
constexpr int64_t kPrefetchBytes = 4096;
inline void prefetch(const void* from) { __builtin_prefetch(static_cast<const char*>(from) + kPrefetchBytes); }

// The scales of rows [begin, end), in place where they are floats, otherwise in `scratch`.
inline const float* scales_of(const GroupScales& scales, int64_t begin, int64_t end, float* scratch) {
  const int64_t first = begin * scales.groups, count = (end - begin) * scales.groups;
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
  // A loop of its own, so that the product is rounded first, as bitsandbytes does.
  for (int64_t i = 0; i < count; ++i) scratch[i] += scales.offset;
  return scratch;
}

// f(first vector, how many as a constant), for as many at a time as leave enough registers.
template <int N>
struct Constant {
  static constexpr int value = N;
};
template <class F>
inline void in_batches(int64_t vectors, const F& f) {
  int64_t v = 0;
  for (; v + 8 <= vectors; v += 8) f(v, Constant<8>());
  if (v + 4 <= vectors) {
    f(v, Constant<4>());
    v += 4;
  }
  switch (vectors - v) {
    case 1: return f(v, Constant<1>());
    case 2: return f(v, Constant<2>());
    case 3: return f(v, Constant<3>());
    default: return;
  }
}

inline void put(const PackedArgs& args, int64_t v, int64_t row, float value) {
  args.y[v * args.y_row + row] = args.bias ? value + args.bias[row] : value;
}

template <int V>
inline void int8_row(const int8_t* w, const float* x, int64_t width, float* result) {
  constexpr int kChains = V == 1 ? 4 : V < 4 ? 2 : 1;  // so that no sum waits for itself
  Floats sums[V][kChains];
  for (auto& chains : sums)
    for (Floats& chain : chains) chain = zeros();
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    prefetch(w + i);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const Floats weights = read(w + i + c * kLanes);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        Floats& chain = sums[v][c % kChains];
        chain = add_product(weights, read(x + v * width + i + c * kLanes), chain);
      }
    }
  }
  for (; i + kLanes <= width; i += kLanes) {
    const Floats weights = read(w + i);
    for (int v = 0; v < V; ++v) sums[v][0] = add_product(weights, read(x + v * width + i), sums[v][0]);
  }
  for (int v = 0; v < V; ++v) {
    for (int c = 1; c < kChains; ++c) sums[v][0] = sums[v][0] + sums[v][c];
    result[v] = sum(sums[v][0]);
    for (int64_t j = i; j < width; ++j) result[v] += static_cast<float>(w[j]) * x[v * width + j];
  }
}

void int8_times_float(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, ++scales) {
    const int8_t* w = static_cast<const int8_t*>(args.codes) + row * args.width;
    const float scale = *scales / 127.0f;
    in_batches(args.vectors, [&](int64_t v, auto count) {
      float result[count.value];
      int8_row<count.value>(w, args.x + v * args.width, args.width, result);
      for (int i = 0; i < count.value; ++i) put(args, v + i, row, scale * result[i]);
    });
  }
}

template <int V>
inline void nibble_row(const uint8_t* w, const Table& table, const float* scales, const float* x, int64_t width,
                       int64_t group, float* result) {
  Floats sums[V];
  for (Floats& s : sums) s = zeros();
  for (int64_t i = 0; i < width; i += group, ++scales) {
    Floats low[V], high[V];
    prefetch(w + i / 2);
    {
      const Block block = look_up(table, w + i / 2);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        low[v] = block.low * read(x + v * width + i);
        high[v] = block.high * read(x + v * width + i + kLanes);
      }
    }
    for (int64_t j = i + kNibbleBlock; j < i + group; j += kNibbleBlock) {
      prefetch(w + j / 2);
      const Block block = look_up(table, w + j / 2);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        low[v] = add_product(block.low, read(x + v * width + j), low[v]);
        high[v] = add_product(block.high, read(x + v * width + j + kLanes), high[v]);
      }
    }
    const Floats scale = all(*scales);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[v] = add_product(low[v] + high[v], scale, sums[v]);
  }
  for (int v = 0; v < V; ++v) result[v] = sum(sums[v]);
}

void nibbles_times_float(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const Table table = read_table(args.table);
  const int64_t group = args.width / args.scales.groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, scales += args.scales.groups) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
    in_batches(args.vectors, [&](int64_t v, auto count) {
      float result[count.value];
      const float* x = args.x + v * args.width;
      // A constant size lets the compiler unroll the most common groups.
      if (group == 32)
        nibble_row<count.value>(w, table, scales, x, args.width, 32, result);
      else if (group == 64)
        nibble_row<count.value>(w, table, scales, x, args.width, 64, result);
      else
        nibble_row<count.value>(w, table, scales, x, args.width, group, result);
      for (int i = 0; i < count.value; ++i) put(args, v + i, row, result[i]);
    });
  }
}

// The codes of [from, from + count), 32 at a time where they are int8; what is left over one by one.
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

void nibbles_times_int8(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const int64_t groups = args.scales.groups, group = args.width / groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, scales += args.scales.groups) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
    for (int64_t v = 0; v < args.vectors; ++v) {
      const int8_t* x = args.x_codes + v * args.width;
      const float* x_scales = args.x_scales + v * groups;
      const int32_t* starts = args.x_starts + v * groups;
      DotSums sums = no_sums();
      for (int64_t g = 0; g < groups; ++g) {
        Dots dots = start(starts[g]);
        for (int64_t i = g * group; i < (g + 1) * group; i += kNibbleBlock) {
          prefetch(w + i / 2);
          dots = add_products(dots, w + i / 2, x + i);
        }
        sums = add_scaled(sums, dots, x_scales[g], scales[g]);
      }
      put(args, v, row, sum(sums));
    }
  }
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

void unpack_nibbles(const PackedArgs& args, int64_t begin, int64_t end, float* scratch) {
  const Table table = read_table(args.table);
  const int64_t group = args.width / args.scales.groups;
  const float* scales = scales_of(args.scales, begin, end, scratch);
  for (int64_t row = begin; row < end; ++row, scales += args.scales.groups) {
    const uint8_t* w = static_cast<const uint8_t*>(args.codes) + row * args.width / 2;
    float* y = args.y + (row - begin) * args.width;
    for (int64_t g = 0; g < args.scales.groups; ++g) {
      const Floats scale = all(scales[g]);
      for (int64_t i = g * group; i < (g + 1) * group; i += kNibbleBlock) {
        const Block block = look_up(table, w + i / 2);
        write(y + i, block.low * scale);
        write(y + i + kLanes, block.high * scale);
      }
    }
  }
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
