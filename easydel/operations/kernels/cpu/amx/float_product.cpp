// Products of float32 matrices in tiles of bfloat16. Each number is the sum of three bfloat16, whose products without
// those below float32's precision are six, and as exact as float32. A block of b stays in a core's L2 cache of 2 MB,
// next to 32 rows of a.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "easydel/operations/kernels/cpu/amx/tiles.h"
#include "easydel/operations/kernels/cpu/float_product.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kStep = 32;  // depth that a tile product sums
constexpr int64_t kDepth = 256, kColumns = 1024, kPanel = 32;
constexpr int64_t kParts = 3;
constexpr int64_t kStepElements = kParts * 2 * kTileElements;  // of a panel

// Rows of a, or columns of b: line `line` at `depth` is data[line * line_stride + depth * depth_stride].
struct Lines {
  const float* data;
  int64_t line_stride, depth_stride;
  const int64_t* lines;   // indices, or null
  const int64_t* depths;  // likewise

  const float* at(int64_t line, int64_t depth) const {
    return data + (lines ? lines[line] : line) * line_stride + (depths ? depths[depth] : depth) * depth_stride;
  }
};

// Sixteen lines from `line` on, and 32 of depth, with zeros beyond `count` lines and `depth` numbers.
struct Numbers {
  __m512 low[kLanes], high[kLanes];
};
inline void read(const Lines& from, int64_t line, int64_t count, int64_t k, int64_t depth, Numbers& n) {
  const __mmask16 low = FloatLanes::first(depth), high = FloatLanes::first(depth - kLanes);
  if (from.depth_stride == 1 && !from.depths) {
    for (int64_t i = 0; i < kLanes; ++i) {
      n.low[i] = n.high[i] = _mm512_setzero_ps();
      if (i >= count) continue;
      const float* numbers = from.at(line + i, k);
      n.low[i] = _mm512_maskz_loadu_ps(low, numbers);
      n.high[i] = _mm512_maskz_loadu_ps(high, numbers + kLanes);
    }
    return;
  }
  if (from.line_stride == 1 && !from.lines) {
    const __mmask16 mask = FloatLanes::first(count);
    __m512i columns[kLanes];
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t at = half * kLanes + i;
        columns[i] = at < depth ? _mm512_maskz_loadu_epi32(mask, from.at(line, k + at)) : _mm512_setzero_si512();
      }
      transpose(columns);
      for (int64_t i = 0; i < kLanes; ++i) (half == 0 ? n.low : n.high)[i] = _mm512_castsi512_ps(columns[i]);
    }
    return;
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    alignas(64) float numbers[kStep] = {};
    for (int64_t at = 0; i < count && at < std::min(depth, kStep); ++at) numbers[at] = *from.at(line + i, k + at);
    n.low[i] = _mm512_load_ps(numbers);
    n.high[i] = _mm512_load_ps(numbers + kLanes);
  }
}

// Whether all are finite, and their nearest bfloat16, too.
inline bool is_finite(const Numbers& n) {
  const __m512 most = _mm512_castsi512_ps(_mm512_set1_epi32(0x7f7f7fff));
  __mmask16 all = 0xffff;
  for (int64_t i = 0; i < kLanes; ++i) {
    all &= _mm512_cmp_ps_mask(_mm512_abs_ps(n.low[i]), most, _CMP_LE_OQ);
    all &= _mm512_cmp_ps_mask(_mm512_abs_ps(n.high[i]), most, _CMP_LE_OQ);
  }
  return all == 0xffff;
}

// A panel of up to 32 lines: [depth / 32, part, 2 tiles], the tiles [line, depth], or [depth / 2, line, 2] of columns.
// Whether all of it is finite: an infinite number times the lower parts of another one, which may be 0, is none.
template <bool kOfColumns>
bool pack(const Lines& from, int64_t line, int64_t count, int64_t k, int64_t depth, uint16_t* to) {
  bool finite = true;
  for (int64_t step = 0; step < depth; step += kStep, to += kStepElements) {
    for (int64_t tile = 0; tile < 2; ++tile) {
      Numbers n;
      read(from, line + tile * kLanes, count - tile * kLanes, k + step, depth - step, n);
      finite &= is_finite(n);
      for (int64_t part = 0; part < kParts; ++part) {
        __m512i words[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          const __m512 low = nearest_bfloat16(n.low[i]), high = nearest_bfloat16(n.high[i]);
          words[i] = upper_halves(low, high);
          n.low[i] = _mm512_sub_ps(n.low[i], low);
          n.high[i] = _mm512_sub_ps(n.high[i], high);
        }
        if constexpr (kOfColumns) transpose(words);
        uint16_t* out = to + (part * 2 + tile) * kTileElements;
        for (int64_t i = 0; i < kLanes; ++i) _mm512_store_si512(out + i * kStep, words[i]);
      }
    }
  }
  return finite;
}

// Adds, of 32 rows and 32 columns, the products of left parts in tiles 4 and 5 and right ones in 6 and 7.
inline void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 5, 6);
  _tile_dpbf16ps(2, 4, 7);
  _tile_dpbf16ps(3, 5, 7);
}
inline void load_left(const uint16_t* part) {
  _tile_loadd(4, part, 64);
  _tile_loadd(5, part + kTileElements, 64);
}
inline void load_right(const uint16_t* part) {
  _tile_loadd(6, part, 64);
  _tile_loadd(7, part + kTileElements, 64);
}

struct alignas(64) Sums {
  float of[kPanel][kPanel];
};

void multiply(const uint16_t* a, const uint16_t* b, int64_t depth, Sums& sums) {
  constexpr int64_t kPart = 2 * kTileElements, kStride = sizeof(sums.of[0]);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < depth; step += kStep, a += kStepElements, b += kStepElements) {
    for (int64_t left = 0; left < kParts; ++left) {
      load_left(a + left * kPart);
      for (int64_t right = 0; left + right < kParts; ++right) {
        load_right(b + right * kPart);
        add_products();
      }
    }
  }
  _tile_stored(0, &sums.of[0][0], kStride);
  _tile_stored(1, &sums.of[kLanes][0], kStride);
  _tile_stored(2, &sums.of[0][kLanes], kStride);
  _tile_stored(3, &sums.of[kLanes][kLanes], kStride);
}

// The same for numbers that are not all finite.
void multiply_plainly(const Lines& rows, const Lines& columns, int64_t row, int64_t height, int64_t column,
                      int64_t width, int64_t k, int64_t depth, Sums& sums) {
  for (int64_t r = 0; r < height; ++r) {
    for (int64_t j = 0; j < width; ++j) {
      float sum = 0;
      for (int64_t at = k; at < k + depth; ++at) sum += *rows.at(row + r, at) * *columns.at(column + j, at);
      sums.of[r][j] = sum;
    }
  }
}

// Adds sums to what stands at `start`, if anything does, into c.
void put(const Sums& sums, const float* start, int64_t start_row, float* c, int64_t c_row, int64_t rows,
         int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; j += kLanes) {
      const __mmask16 mask = FloatLanes::first(columns - j);
      __m512 sum = _mm512_load_ps(&sums.of[r][j]);
      if (start) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, start + r * start_row + j));
      _mm512_mask_storeu_ps(c + r * c_row + j, mask, sum);
    }
  }
}

// Grows as needed. Not a std::vector, whose functions, compiled for AVX-512, other files might be linked with.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { std::free(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint16_t* room_for(int64_t elements) {
    if (elements > size_) {
      constexpr std::size_t kLine = 64;
      std::free(memory_);
      size_ = 0;
      memory_ = static_cast<uint16_t*>(std::aligned_alloc(
          kLine, (static_cast<std::size_t>(elements) * sizeof(uint16_t) + kLine - 1) / kLine * kLine));
      if (!memory_) throw std::bad_alloc();
      size_ = elements;
    }
    return memory_;
  }

 private:
  uint16_t* memory_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace

void float_product_amx(const FloatProduct& p);
void float_product_amx(const FloatProduct& p) {
  static thread_local Buffer memory_a, memory_b;
  constexpr int64_t kPanelElements = kDepth / kStep * kStepElements;
  uint16_t* const panel_a = memory_a.room_for(kPanelElements);
  uint16_t* const block_b = memory_b.room_for(kColumns / kPanel * kPanelElements);
  const Lines rows{p.a.data, p.a.row, p.a.column, p.a.rows, p.a.columns};
  const Lines columns{p.b.data, p.b.column, p.b.row, p.b.columns, p.b.rows};
  const TileScope tiles;
  Sums sums;
  std::array<bool, kColumns / kPanel> is_finite_b{};
  for (int64_t column = 0; column < p.n; column += kColumns) {
    const int64_t width = std::min(kColumns, p.n - column);
    int64_t k = 0;
    do {  // once for a product without depth, too
      const int64_t depth = std::min(kDepth, p.k - k);
      for (int64_t j = 0; j < width; j += kPanel)
        is_finite_b[static_cast<std::size_t>(j / kPanel)] =
            pack<true>(columns, column + j, width - j, k, depth, block_b + j / kPanel * kPanelElements);
      for (int64_t row = 0; row < p.m; row += kPanel) {
        const int64_t height = std::min(kPanel, p.m - row);
        const bool is_finite_a = pack<false>(rows, row, height, k, depth, panel_a);
        for (int64_t j = 0; j < width; j += kPanel) {
          if (is_finite_a && is_finite_b[static_cast<std::size_t>(j / kPanel)]) {
            multiply(panel_a, block_b + j / kPanel * kPanelElements, depth, sums);
          } else {
            multiply_plainly(rows, columns, row, height, column + j, std::min(kPanel, width - j), k, depth, sums);
          }
          float* c = p.c + row * p.c_row + column + j;
          const float* start = k > 0 ? c : p.start ? p.start + row * p.start_row + column + j : nullptr;
          put(sums, start, k > 0 ? p.c_row : p.start_row, c, p.c_row, height, std::min(kPanel, width - j));
        }
      }
      k += kDepth;
    } while (k < p.k);
  }
}

}  // namespace easydel::operations::kernels
