// Rows of the codes that published files keep (GPTQ's and AWQ's with zero points, MXFP4, FP8) times a few vectors.
// Included only by block_kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/block_kernels.h"
#include "easydel/operations/kernels/cpu/block_row_kernels.h"
#include "easydel/operations/kernels/cpu/panel_kernels.h"
#include "easydel/operations/kernels/cpu/quantized_lanes.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kRun = 2 * kLanes;  // columns that are decoded at a time; groups are multiples of it

// A format decodes runs of codes, in a unit that its scales make up for. What a group's weights are less than its codes
// times the scale is its offset.
struct Uint4Codes {
  static constexpr int kRunBytes = 16;
  static constexpr bool kHasOffsets = true;
  Centred table{};

  static float scale(const CodeArgs& args, int64_t group) {
    return half_at(static_cast<const uint8_t*>(args.scales) + 2 * group) * Centred::kUnit;
  }
  static float offset(const CodeArgs& args, int64_t group) {  // codes are read as code - 8
    return half_at(static_cast<const uint8_t*>(args.scales) + 2 * group) * static_cast<float>(args.zeros[group] - 8);
  }
  static void write_run(const CodeArgs& args, int64_t group, const Block& run, float* out) {
    const Floats unit = all(Centred::kUnit), shift = all(static_cast<float>(8 - args.zeros[group]));
    const Floats step = all(half_at(static_cast<const uint8_t*>(args.scales) + 2 * group));
    write(out, add_product(run.low, unit, shift) * step);
    write(out + kLanes, add_product(run.high, unit, shift) * step);
  }
  Block decode(const uint8_t* codes) const { return look_up(table, codes); }
};

// The first of two columns is in the low bits: x has the even columns of a run before the odd ones.
struct Mxfp4Codes {
  static constexpr int kRunBytes = 16;
  static constexpr bool kHasOffsets = false;
  static constexpr float kValues[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  Table table{kValues};

  static float scale(const CodeArgs& args, int64_t group) {
    const uint32_t exponent = static_cast<const uint8_t*>(args.scales)[group];
    return bits_to_float(exponent == 0 ? 1u << 22 : exponent << 23) * Table::kUnit;
  }
  static void write_run(const CodeArgs& args, int64_t group, const Block& run, float* out) {
    float even[kLanes], odd[kLanes];
    const Floats step = all(scale(args, group));
    write(even, run.low * step);
    write(odd, run.high * step);
    for (int64_t i = 0; i < kLanes; ++i) {
      out[2 * i] = even[i];
      out[2 * i + 1] = odd[i];
    }
  }
  Block decode(const uint8_t* codes) const { return look_up(table, codes); }
};

// float8_e4m3fn has the bits of a half, but for the exponent, whose bias is 7 and not 15, and for the NaN: all ones.
struct Fp8Codes {
  static constexpr int kRunBytes = 32;
  static constexpr bool kHasOffsets = false;

#if defined(__AVX2__)
  static constexpr float kUnit = 256;
  static Floats sixteen(const uint8_t* codes) {
    // With the sign in the highest two bits.
    const __m256i words =
        _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))), 7);
    const __m256i ones = _mm256_set1_epi16(0x3f80);
    const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(words, ones), ones);
    const __m256i halves = _mm256_or_si256(_mm256_andnot_si256(_mm256_set1_epi16(0x4000), words), nan);
#if defined(__AVX512F__)
    return {_mm512_cvtph_ps(halves)};
#else
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
#endif
  }
#else
  static constexpr float kUnit = 0x1p120f;
  static Floats sixteen(const uint8_t* codes) {
    float values[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      const uint32_t rest = codes[i] & 0x7fu, if_nan = (rest + 1) & 0x80u;
      const uint32_t exponent = (if_nan << 24) - (if_nan << 20);  // all ones
      values[i] = bits_to_float(((codes[i] & 0x80u) << 24) | (rest << 20) | exponent) * kUnit;
    }
    return read(values);
  }
#endif

  static float scale(const CodeArgs& args, int64_t group) {
#if defined(__AVX2__)
    return static_cast<const float*>(args.scales)[group] * kUnit;
#else
    return static_cast<const float*>(args.scales)[group];
#endif
  }
  static void write_run(const CodeArgs& args, int64_t group, const Block& run, float* out) {
    const Floats step = all(scale(args, group));
    write(out, run.low * step);
    write(out + kLanes, run.high * step);
  }
  static Block decode(const uint8_t* codes) { return {sixteen(codes), sixteen(codes + kLanes)}; }
};

template <class Format, int V>
inline void multiply_code_row(const Format& format, const CodeArgs& args, int64_t row, int64_t first) {
  constexpr int64_t kAhead = 1024;  // bytes
  Floats sums[V][2];
  float minus[V] = {};
  for (auto& vector : sums)
    for (Floats& s : vector) s = zeros();
  const uint8_t* codes = args.codes + row * args.row_bytes;
  const int64_t width = args.group * args.groups;
  for (int64_t g = 0; g < args.groups; ++g) {
    const int64_t group = row * args.groups + g, end = (g + 1) * args.group;
    const Floats scale = all(Format::scale(args, group));
    for (int64_t at = g * args.group; at < end; at += kRun, codes += Format::kRunBytes) {
      __builtin_prefetch(codes + kAhead);
      const Block run = format.decode(codes);
      const Floats low = run.low * scale, high = run.high * scale;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const float* x = args.x + (first + v) * width + at;
        sums[v][0] = add_product(low, read(x), sums[v][0]);
        sums[v][1] = add_product(high, read(x + kLanes), sums[v][1]);
      }
    }
    if constexpr (Format::kHasOffsets) {
      const float offset = Format::offset(args, group);
      for (int v = 0; v < V; ++v) minus[v] += offset * args.sums[(first + v) * args.groups + g];
    }
  }
  for (int v = 0; v < V; ++v) args.y[(first + v) * args.y_row + row] = sum(sums[v][0] + sums[v][1]) - minus[v];
}

#if defined(EASYDEL_PANELS)
// Columns [from, to) of a row, whole runs, as floats.
template <class Format>
inline void unpack_part(const Format& format, const CodeArgs& args, int64_t row, int64_t from, int64_t to, float* out) {
  const uint8_t* codes = args.codes + row * args.row_bytes + from / kRun * Format::kRunBytes;
  for (int64_t at = from; at < to; at += kRun, codes += Format::kRunBytes, out += kRun) {
    __builtin_prefetch(codes + kPanelRows * args.row_bytes);
    const int64_t group = row * args.groups + at / args.group;
    const Floats scale = all(Format::scale(args, group));
    Floats start = zeros();
    if constexpr (Format::kHasOffsets) start = all(-Format::offset(args, group));
    const Block run = format.decode(codes);
    write(out, add_product(run.low, scale, start));
    write(out + kLanes, add_product(run.high, scale, start));
  }
}
#endif

// Rows as floats, each weight rounded once.
template <class Format>
void unpack_codes(const CodeArgs& args, int64_t begin, int64_t end, float* out) {
  const Format format{};
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* codes = args.codes + row * args.row_bytes;
    for (int64_t group = row * args.groups; group < (row + 1) * args.groups; ++group) {
      for (int64_t at = 0; at < args.group; at += kRun, codes += Format::kRunBytes, out += kRun)
        Format::write_run(args, group, format.decode(codes), out);
    }
  }
}

template <class Format>
void multiply_codes(const CodeArgs& args, int64_t begin, int64_t end) {
  const Format format{};
#if defined(EASYDEL_PANELS)
  constexpr int64_t kPanelVectors = 6;  // fewer are multiplied by weights in registers
  if (args.vectors >= kPanelVectors) {
    multiply_panels(
        args.x, args.group * args.groups, args.vectors, kRun, begin, end,
        [&](int64_t row, int64_t from, int64_t to, float* out) { unpack_part(format, args, row, from, to, out); },
        [&](int64_t v, int64_t row, float sum, bool is_first) {
          float& y = args.y[v * args.y_row + row];
          y = is_first ? sum : y + sum;
        });
    return;
  }
#endif
  for (int64_t row = begin; row < end; ++row) {
    int64_t v = 0;
    for (; v + 4 <= args.vectors; v += 4) multiply_code_row<Format, 4>(format, args, row, v);
    for (; v + 2 <= args.vectors; v += 2) multiply_code_row<Format, 2>(format, args, row, v);
    if (v < args.vectors) multiply_code_row<Format, 1>(format, args, row, v);
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
