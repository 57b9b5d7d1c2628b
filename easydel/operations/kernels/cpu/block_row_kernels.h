// Rows of GGUF's blocks times a few vectors. Included only by block_kernels.cpp.in.
#pragma once

#include <cstring>

#include "easydel/operations/kernels/cpu/block_kernels.h"
#include "easydel/operations/kernels/cpu/panel_kernels.h"
#include "easydel/operations/kernels/cpu/quantized_lanes.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

inline float half_at(const uint8_t* from) {
  f16 half;
  std::memcpy(&half, from, sizeof half);
#ifdef __F16C__
  return _cvtsh_ss(half.bits);
#else
  return to_float(half);
#endif
}

// A format defines how to decode a block into chunks of sixteen codes with a scale each, and a minimum per two chunks.
struct Q8_0 {
  static constexpr int kChunks = 2, kBytes = 34;
  static constexpr bool kHasMinima = false;
  static void decode(const uint8_t* block, Floats* codes, float* scales, float*) {
    scales[0] = scales[1] = half_at(block);
    for (int i = 0; i < 2; ++i) codes[i] = read(reinterpret_cast<const int8_t*>(block + 2) + 16 * i);
  }
};

// Eight scales and eight minima of six bits in twelve bytes, for thirty-two codes each.
inline void decode_scales(const uint8_t* block, float* scales, float* minima) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const uint8_t* packed = block + 4;
  for (int i = 0; i < 8; ++i) {
    const int scale = i < 4 ? packed[i] & 63 : (packed[i + 4] & 15) | ((packed[i - 4] >> 6) << 4);
    const int min = i < 4 ? packed[i + 4] & 63 : (packed[i + 4] >> 4) | ((packed[i] >> 6) << 4);
    scales[2 * i] = scales[2 * i + 1] = d * static_cast<float>(scale);
    minima[i] = dmin * static_cast<float>(min);
  }
}

struct Q4_K {
  static constexpr int kChunks = 16, kBytes = 144;
  static constexpr bool kHasMinima = true;
  static void decode(const uint8_t* block, Floats* codes, float* scales, float* minima) {
    decode_scales(block, scales, minima);
    for (int i = 0; i < 8; ++i) minima[i] -= 8 * scales[2 * i];  // codes are read as code - 8
    for (int i = 0; i < kChunks; ++i) scales[i] *= Centred::kUnit;
    for (int pair = 0; pair < 4; ++pair) {
      for (int half = 0; half < 2; ++half) {
        const Block both = look_up(Centred(), block + 16 + 32 * pair + 16 * half);
        codes[4 * pair + half] = both.low;
        codes[4 * pair + 2 + half] = both.high;
      }
    }
  }
};

struct Q5_K {
  static constexpr int kChunks = 16, kBytes = 176;
  static constexpr bool kHasMinima = true;
  static void decode(const uint8_t* block, Floats* codes, float* scales, float* minima) {
    decode_scales(block, scales, minima);
    const uint8_t* high = block + 16;
    int8_t q[64];
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* low = block + 48 + 32 * pair;
      for (int i = 0; i < 32; ++i) {
        q[i] = static_cast<int8_t>((low[i] & 15) | (((high[i] >> (2 * pair)) & 1) << 4));
        q[i + 32] = static_cast<int8_t>((low[i] >> 4) | (((high[i] >> (2 * pair + 1)) & 1) << 4));
      }
      for (int i = 0; i < 4; ++i) codes[4 * pair + i] = read(q + 16 * i);
    }
  }
};

struct Q6_K {
  static constexpr int kChunks = 16, kBytes = 210;
  static constexpr bool kHasMinima = false;
  static void decode(const uint8_t* block, Floats* codes, float* scales, float*) {
    const float d = half_at(block + 208);
    for (int i = 0; i < 16; ++i) scales[i] = d * static_cast<float>(reinterpret_cast<const int8_t*>(block + 192)[i]);
    int8_t q[128];
    for (int half = 0; half < 2; ++half) {
      const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
      for (int i = 0; i < 32; ++i) {
        q[i] = static_cast<int8_t>(((low[i] & 15) | ((high[i] & 3) << 4)) - 32);
        q[i + 32] = static_cast<int8_t>(((low[i + 32] & 15) | (((high[i] >> 2) & 3) << 4)) - 32);
        q[i + 64] = static_cast<int8_t>(((low[i] >> 4) | (((high[i] >> 4) & 3) << 4)) - 32);
        q[i + 96] = static_cast<int8_t>(((low[i + 32] >> 4) | ((high[i] >> 6) << 4)) - 32);
      }
      for (int i = 0; i < 8; ++i) codes[8 * half + i] = read(q + 16 * i);
    }
  }
};

template <class Format, int V>
inline void multiply_row(const BlockArgs& args, int64_t row, int64_t first) {
  constexpr int64_t kAhead = 1024;  // bytes
  constexpr int kChains = V == 1 ? 4 : V == 2 ? 2 : 1, kUsed = kChains < Format::kChunks ? kChains : Format::kChunks;
  constexpr int64_t kElements = Format::kChunks * kLanes;
  Floats sums[V][kUsed];
  float minus[V] = {};
  for (auto& vector : sums)
    for (Floats& s : vector) s = zeros();
  const uint8_t* block = args.blocks + row * args.row_bytes;
  for (int64_t at = 0; at < args.width; at += kElements, block += Format::kBytes) {
    for (int i = 0; i < Format::kBytes; i += 64) __builtin_prefetch(block + kAhead + i);
    Floats codes[Format::kChunks];
    float scales[Format::kChunks], minima[8];
    Format::decode(block, codes, scales, minima);
#pragma GCC unroll 16
    for (int c = 0; c < Format::kChunks; ++c) {
      const Floats scaled = codes[c] * all(scales[c]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        sums[v][c % kUsed] =
            add_product(scaled, read(args.x + (first + v) * args.width + at + c * kLanes), sums[v][c % kUsed]);
    }
    if constexpr (Format::kHasMinima) {
      for (int v = 0; v < V; ++v) {
        const float* x = args.sums + ((first + v) * args.width + at) / 32;
        for (int g = 0; g < 8; ++g) minus[v] += minima[g] * x[g];
      }
    }
  }
  for (int v = 0; v < V; ++v) {
    for (int c = 1; c < kUsed; ++c) sums[v][0] = sums[v][0] + sums[v][c];
    args.y[(first + v) * args.y_row + row] = sum(sums[v][0]) - minus[v];
  }
}

#if defined(EASYDEL_PANELS)
// Elements [from, to) of a row, whole blocks, as floats.
template <class Format>
inline void unpack_blocks(const BlockArgs& args, int64_t row, int64_t from, int64_t to, float* out) {
  constexpr int64_t kElements = Format::kChunks * kLanes, kAhead = 1024;
  const uint8_t* block = args.blocks + row * args.row_bytes + from / kElements * Format::kBytes;
  for (int64_t at = from; at < to; at += kElements, block += Format::kBytes, out += kElements) {
    for (int i = 0; i < Format::kBytes; i += 64) __builtin_prefetch(block + kAhead + i);
    Floats codes[Format::kChunks];
    float scales[Format::kChunks], minima[8];
    Format::decode(block, codes, scales, minima);
#pragma GCC unroll 16
    for (int c = 0; c < Format::kChunks; ++c) {
      const Floats start = Format::kHasMinima ? all(-minima[c / 2]) : zeros();
      write(out + c * kLanes, add_product(codes[c], all(scales[c]), start));
    }
  }
}
#endif

template <class Format>
void multiply_rows(const BlockArgs& args, int64_t begin, int64_t end) {
#if defined(EASYDEL_PANELS)
  // Fewer are multiplied by weights in registers: where these are cheap to decode, more are needed.
  constexpr int64_t kPanelVectors = Format::kChunks == 2 ? 6 : 3;
  if (args.vectors >= kPanelVectors) {
    multiply_panels(
        args.x, args.width, args.vectors, Format::kChunks * kLanes, begin, end,
        [&](int64_t row, int64_t from, int64_t to, float* out) { unpack_blocks<Format>(args, row, from, to, out); },
        [&](int64_t v, int64_t row, float sum, bool is_first) {
          float& y = args.y[v * args.y_row + row];
          y = is_first ? sum : y + sum;
        });
    return;
  }
#endif
  for (int64_t row = begin; row < end; ++row) {
    int64_t v = 0;
    for (; v + 4 <= args.vectors; v += 4) multiply_row<Format, 4>(args, row, v);
    for (; v + 2 <= args.vectors; v += 2) multiply_row<Format, 2>(args, row, v);
    if (v < args.vectors) multiply_row<Format, 1>(args, row, v);
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
