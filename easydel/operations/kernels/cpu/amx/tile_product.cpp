#include <algorithm>
#include <cstring>

#include "easydel/operations/kernels/cpu/amx/tile_product.h"
#include "easydel/operations/kernels/cpu/amx/tiles.h"

namespace easydel::operations::kernels {
namespace {

void split(const float* x, int64_t vectors, int64_t width, int64_t block, uint16_t* parts) {
  const int64_t size = tile_block(vectors), tiles = size / kLanes;
  for (int64_t k = 0; k < width; k += kTileDepth, parts += 3 * tiles * kTileElements) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = block * size + tile * kLanes;
      __m512i part[3][kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        __m512 low = _mm512_setzero_ps(), high = low;
        if (first + i < vectors) {
          low = _mm512_loadu_ps(x + (first + i) * width + k);
          high = _mm512_loadu_ps(x + (first + i) * width + k + kLanes);
        }
        part[0][i] = upper_halves(low, high);
        low = rest_of(low), high = rest_of(high);
        part[1][i] = upper_halves(low, high);
        part[2][i] = upper_halves(rest_of(low), rest_of(high));
      }
      for (int64_t p = 0; p < 3; ++p) {
        transpose(part[p]);
        uint16_t* to = parts + (p * tiles + tile) * kTileElements;
        for (int64_t i = 0; i < kLanes; ++i) _mm512_storeu_si512(to + i * kTileDepth, part[p][i]);
      }
    }
  }
}

inline __m512i widen(const int8_t* codes) {
  const auto floats = [&](int64_t at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + at));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  };
  return upper_halves(floats(0), floats(kLanes));
}

// The low nibbles of sixteen bytes, then the high ones.
inline __m512i widen(const uint8_t* codes, __m512i values) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  const __m128i mask = _mm_set1_epi8(15);
  const __m256i index = _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask), _mm_and_si128(bytes, mask));
  return _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(index), values);
}

// Weight rows as bfloat16, in the order in which they are multiplied: [panel, depth / 32, 32 rows, 32].
void widen_rows(const TileProduct& p, int64_t begin, int64_t end, uint16_t* panels) {
  alignas(64) uint16_t nibbles[32];
  for (int i = 0; i < 32; ++i) {
    const float value = static_cast<float>(i % 16) - 8;
    std::memcpy(&nibbles[i], reinterpret_cast<const char*>(&value) + 2, 2);
  }
  const __m512i values = _mm512_load_si512(nibbles);
  for (int64_t row = begin; row < end; ++row) {
    uint16_t* to = panels + (row - begin) / kTilePanel * kTilePanel * p.width + (row - begin) % kTilePanel * kTileDepth;
    for (int64_t k = 0; k < p.width; k += kTileDepth, to += kTilePanel * kTileDepth) {
      const __m512i weights = p.are_nibbles
                                  ? widen(static_cast<const uint8_t*>(p.codes) + (row * p.width + k) / 2, values)
                                  : widen(static_cast<const int8_t*>(p.codes) + row * p.width + k);
      _mm512_storeu_si512(to, weights);
    }
  }
  for (int64_t row = end; (row - begin) % kTilePanel != 0; ++row) {
    uint16_t* to = panels + (row - begin) / kTilePanel * kTilePanel * p.width + (row - begin) % kTilePanel * kTileDepth;
    for (int64_t k = 0; k < p.width; k += kTileDepth, to += kTilePanel * kTileDepth)
      std::memset(to, 0, kTileDepth * sizeof(uint16_t));
  }
}

// Sums [32 rows, 32 vectors] of a panel and a block.
struct alignas(64) Sums {
  float of[kTilePanel][kTileVectors];
};

template <bool kTwo>
inline void clear_tiles() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwo) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

template <bool kTwo>
inline void store_tiles(Sums& sums) {
  constexpr int64_t kStride = sizeof(sums.of[0]);
  _tile_stored(0, &sums.of[0][0], kStride);
  _tile_stored(1, &sums.of[kLanes][0], kStride);
  if constexpr (kTwo) {
    _tile_stored(2, &sums.of[0][kLanes], kStride);
    _tile_stored(3, &sums.of[kLanes][kLanes], kStride);
  }
}

// Adds the products of weights [32, 32 * steps] and the parts of x of 16 vectors, or 32.
template <bool kTwo>
inline void add_tiles(const uint16_t* weights, const uint16_t* x, int64_t steps) {
  constexpr int64_t kTiles = kTwo ? 2 : 1;
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, weights, 64);
    _tile_loadd(5, weights + kTileElements, 64);
    for (int part = 0; part < 3; ++part) {
      _tile_loadd(6, x, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 5, 6);
      if constexpr (kTwo) {
        _tile_loadd(7, x + kTileElements, 64);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      }
      x += kTiles * kTileElements;
    }
    weights += kTilePanel * kTileDepth;
  }
}

// The sums of a panel whose groups have scales of their own. Rows from `rows` on have none.
template <bool kTwo>
inline void add_groups(const TileProduct& p, int64_t row, int64_t rows, const uint16_t* weights, const uint16_t* x,
                       Sums& sums) {
  constexpr int64_t kWords = kTwo ? 2 : 1;
  const int64_t group = p.width / p.groups;
  Sums part;
  std::memset(&sums, 0, sizeof sums);
  for (int64_t g = 0; g < p.groups; ++g) {
    clear_tiles<kTwo>();
    add_tiles<kTwo>(weights + g * group * kTilePanel, x + g * group * 3 * kWords * kLanes, group / kTileDepth);
    store_tiles<kTwo>(part);
    for (int64_t r = 0; r < rows; ++r) {
      const __m512 scale = _mm512_set1_ps(p.scales[(row + r) * p.groups + g]);
      for (int64_t word = 0; word < kWords; ++word) {
        float* to = &sums.of[r][word * kLanes];
        _mm512_store_ps(to, _mm512_fmadd_ps(_mm512_load_ps(&part.of[r][word * kLanes]), scale, _mm512_load_ps(to)));
      }
    }
  }
}

// y of vectors [first, first + count) and rows [row, row + rows), at most 16 each.
inline void write_sums(const TileProduct& p, Sums& sums, int64_t in_panel, int64_t row, int64_t rows, int64_t word,
                       int64_t first, int64_t count) {
  __m512i columns[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) {
    const __m512 scale = _mm512_set1_ps(p.are_nibbles ? 1.0f : r < rows ? p.scales[row + r] / 127.0f : 0.0f);
    columns[r] = _mm512_castps_si512(_mm512_mul_ps(_mm512_load_ps(&sums.of[in_panel + r][word * kLanes]), scale));
  }
  transpose(columns);
  const auto mask = static_cast<__mmask16>((1u << rows) - 1);
  const __m512 bias = p.bias ? _mm512_maskz_loadu_ps(mask, p.bias + row) : _mm512_setzero_ps();
  for (int64_t v = 0; v < count; ++v)
    _mm512_mask_storeu_ps(p.y + (first + v) * p.y_row + row, mask,
                          _mm512_add_ps(_mm512_castsi512_ps(columns[v]), bias));
}

template <bool kTwo>
void multiply_panels(const TileProduct& p, int64_t begin, int64_t end, const uint16_t* panels) {
  const int64_t block_size = tile_block(p.vectors), part_size = tile_block_size(p.vectors, p.width);
  Sums sums;
  for (int64_t first = 0; first < p.vectors; first += block_size) {
    const uint16_t* x = p.parts + first / block_size * part_size;
    for (int64_t row = begin; row < end; row += kTilePanel) {
      const uint16_t* weights = panels + (row - begin) * p.width;
      const int64_t rows = std::min(kTilePanel, end - row);
      if (p.are_nibbles) {
        add_groups<kTwo>(p, row, rows, weights, x, sums);
      } else {
        clear_tiles<kTwo>();
        add_tiles<kTwo>(weights, x, p.width / kTileDepth);
        store_tiles<kTwo>(sums);
      }
      for (int64_t at = 0; at < rows; at += kLanes) {
        for (int64_t word = 0; word * kLanes < std::min(block_size, p.vectors - first); ++word)
          write_sums(p, sums, at, row + at, std::min(kLanes, rows - at), word, first + word * kLanes,
                     std::min(kLanes, p.vectors - first - word * kLanes));
      }
    }
  }
}

void multiply(const TileProduct& p, int64_t begin, int64_t end, uint16_t* panels) {
  widen_rows(p, begin, end, panels);
  const TileScope tiles;
  if (tile_block(p.vectors) == kTileVectors) {
    multiply_panels<true>(p, begin, end, panels);
  } else {
    multiply_panels<false>(p, begin, end, panels);
  }
}

}  // namespace

extern const TileKernels tile_kernels_amx;
const TileKernels tile_kernels_amx = {split, multiply};

}  // namespace easydel::operations::kernels
