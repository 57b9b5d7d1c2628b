// The tiles of AMX, and float32 as sums of three bfloat16. Included only by files that are compiled for AMX.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "easydel/operations/kernels/cpu/float_lanes.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kTileElements = kLanes * 32;  // bfloat16 of a tile

// All tiles are whole: sums [16, 16], left factors [16, 32], right factors [32 / 2, 16, 2].
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

class TileScope {
 public:
  TileScope() {
    const TileConfig config;
    _tile_loadconfig(&config);
  }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

// Rows become columns, whatever the words are.
inline void transpose(__m512i (&r)[kLanes]) {
  __m512 rows[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = _mm512_castsi512_ps(r[i]);
  FloatLanes::transpose(rows);
  for (int i = 0; i < kLanes; ++i) r[i] = _mm512_castps_si512(rows[i]);
}

// The upper halves of 32 floats in a row.
inline __m512i upper_halves(__m512 first, __m512 second) {
  alignas(64) static constexpr uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                    33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(_mm512_castps_si512(first), _mm512_load_si512(kOdd), _mm512_castps_si512(second));
}

// The nearest bfloat16, of two the even one, as floats; x is finite.
inline __m512 nearest_bfloat16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_castsi512_ps(_mm512_and_si512(sum, _mm512_set1_epi32(~0xffff)));
}

// What is left of x without its upper half, which holds eight of its 24 bits; 0 where that is not finite.
inline __m512 rest_of(__m512 x) {
  const __m512 upper = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(~0xffff)));
  const __mmask16 is_finite = _mm512_cmp_ps_mask(_mm512_abs_ps(upper), _mm512_set1_ps(__FLT_MAX__), _CMP_LE_OQ);
  return _mm512_maskz_sub_ps(is_finite, x, upper);
}

}  // namespace
}  // namespace easydel::operations::kernels
