// Sizes: a panel of 12 rows and 32 columns of results takes 24 registers; a block of `a` and one of `b` stay in a
// core's second-level cache of 1 MB, and a panel of `a` in its first.
#include <sys/mman.h>

#include <new>
#include <utility>

#include "easydel/operations/kernels/float_product_pack.h"

namespace easydel::operations::kernels {
namespace {

constexpr int64_t kDepth = 384;     // of a block
constexpr int64_t kBlockRows = 48;  // of a, packed at a time
constexpr int64_t kBlockColumns = kFloatProductColumns;

// What a micro-kernel adds its sums to, and where it puts them.
struct Target {
  const float* start;  // may be null
  int64_t start_row;
  float* c;
  int64_t c_row;
  int64_t columns;
};

// What comes next is packed on the way, in the gaps that the arithmetic leaves: some of next_a, with kPacksB of next_b.
template <int kRows, bool kWhole, bool kPacksB>
void multiply_panels(const float* a, const float* b, int64_t depth, const Target& t, RowPanel& next_a,
                     ColumnPanel& next_b) {
  __m512 sums[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
  const auto step = [&]() __attribute__((always_inline)) {
    const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512 factor = _mm512_set1_ps(a[r]);
      sums[r][0] = _mm512_fmadd_ps(factor, b0, sums[r][0]);
      sums[r][1] = _mm512_fmadd_ps(factor, b1, sums[r][1]);
    }
    a += kPanelRows;
    b += kPanelColumns;
  };
  int64_t k = 0;
  const float *c = t.c, *last_c = t.c + (kRows - 1) * t.c_row;
  for (; k + 8 <= depth; k += 8) {
    __builtin_prefetch(c, 1);  // a row at a time: together they would keep a and b waiting
    __builtin_prefetch(c + kPanelColumns - 1, 1);
    c = c == last_c ? c : c + t.c_row;
    next_a.some();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) step();
    if constexpr (kPacksB) next_b.some();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) step();
  }
  for (; k < depth; ++k) step();
  const __mmask16 low = kWhole ? 0xffff : first_lanes(t.columns), high = first_lanes(t.columns - kLanes);
  if (t.start) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const float* from = t.start + r * t.start_row;
      sums[r][0] = _mm512_add_ps(sums[r][0], kWhole ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(low, from));
      sums[r][1] = _mm512_add_ps(sums[r][1],
                                 kWhole ? _mm512_loadu_ps(from + kLanes) : _mm512_maskz_loadu_ps(high, from + kLanes));
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    float* to = t.c + r * t.c_row;
    if (kWhole) {
      _mm512_storeu_ps(to, sums[r][0]);
      _mm512_storeu_ps(to + kLanes, sums[r][1]);
    } else {
      _mm512_mask_storeu_ps(to, low, sums[r][0]);
      _mm512_mask_storeu_ps(to + kLanes, high, sums[r][1]);
    }
  }
}

using MicroKernel = void (*)(const float*, const float*, int64_t, const Target&, RowPanel&, ColumnPanel&);
template <bool kWhole, bool kPacksB>
constexpr MicroKernel kMicroKernels[] = {
    multiply_panels<1, kWhole, kPacksB>,  multiply_panels<2, kWhole, kPacksB>,  multiply_panels<3, kWhole, kPacksB>,
    multiply_panels<4, kWhole, kPacksB>,  multiply_panels<5, kWhole, kPacksB>,  multiply_panels<6, kWhole, kPacksB>,
    multiply_panels<7, kWhole, kPacksB>,  multiply_panels<8, kWhole, kPacksB>,  multiply_panels<9, kWhole, kPacksB>,
    multiply_panels<10, kWhole, kPacksB>, multiply_panels<11, kWhole, kPacksB>, multiply_panels<12, kWhole, kPacksB>,
};

// Where blocks are packed: two of a, since the next one is packed while products read the last, and for the same reason
// two places for the first panel of b.
struct Blocks {
  static constexpr int64_t kPanel = kDepth * kPanelColumns, kRows = kDepth * kBlockRows + kLanes;
  static constexpr int64_t kSize = kDepth * kBlockColumns + kPanel + 2 * kRows;

  float* b;
  float* first_b(int64_t block) const { return block % 2 == 0 ? b : b + kDepth * kBlockColumns; }
  float* a(int64_t block) const { return b + kDepth * kBlockColumns + kPanel + block % 2 * kRows; }
};

// A thread's memory for blocks, kept between calls in one large page. Not from malloc: memory that stays for good would
// cut its free space in pieces.
class BlockMemory {
 public:
  static constexpr std::size_t kBytes = 2 << 20;
  static_assert(Blocks::kSize * sizeof(float) <= kBytes);

  BlockMemory() : all_(::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (all_ == MAP_FAILED) throw std::bad_alloc();
    const auto begin = reinterpret_cast<std::uintptr_t>(all_);
    page_ = reinterpret_cast<float*>((begin + kBytes - 1) / kBytes * kBytes);
#ifdef MADV_HUGEPAGE
    ::madvise(page_, kBytes, MADV_HUGEPAGE);
#endif
  }
  ~BlockMemory() { ::munmap(all_, 2 * kBytes); }
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  Blocks blocks() const { return {page_}; }

 private:
  void* all_;
  float* page_;
};

int64_t pieces(int64_t size, int64_t of) { return (size + of - 1) / of; }

// A block of rows of a, and of columns of b.
void multiply_columns(const FloatProduct& p, const Blocks blocks) {
  // Blocks of about the same depth.
  const int64_t fewest = std::max<int64_t>(1, pieces(p.k, kDepth)), full_depth = pieces(pieces(p.k, fewest), 16) * 16;
  const int64_t count = p.k > 0 ? pieces(p.k, full_depth) : 1;
  const auto depth_at = [&](int64_t k) { return std::min(full_depth, p.k - k); };
  const auto b_at = [&](int64_t block, int64_t j) {
    return j == 0 ? blocks.first_b(block) : blocks.b + j * depth_at(block * full_depth);
  };
  const auto panel_of_b = [&](int64_t block, int64_t j) {
    const int64_t k = block * full_depth;
    const int64_t columns = std::min(kPanelColumns, p.n - j);
    return ColumnPanel(p.b.from(k, j).transposed(), columns, p.n - j - columns, depth_at(k), b_at(block, j));
  };
  ColumnPanel next_b = panel_of_b(0, 0);
  next_b.ask();
  if (p.n > kPanelColumns) panel_of_b(0, kPanelColumns).ask();
  int64_t blocks_of_a = 0;
  const int64_t first_rows = std::min(p.m, kBlockRows);
  RowBlock(p.a, first_rows, p.m - first_rows, depth_at(0), blocks.a(0)).rest();
  next_b.rest();
  for (int64_t block = 0; block < count; ++block) {
    const int64_t k = block * full_depth, depth = depth_at(k), next_k = k + full_depth;
    const bool last_depth = block + 1 == count;
    for (int64_t row = 0; row < p.m; row += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, p.m - row), panels = pieces(rows, kPanelRows);
      const int64_t below = p.m - row - rows;
      const float* block_a = blocks.a(blocks_of_a++);
      float* next_block_a = blocks.a(blocks_of_a);
      RowBlock next_a;
      if (below > 0) {
        const int64_t next = std::min(below, kBlockRows);
        next_a = RowBlock(p.a.from(row + rows, k), next, below - next, depth, next_block_a);
      } else if (!last_depth) {
        next_a = RowBlock(p.a.from(0, next_k), first_rows, p.m - first_rows, depth_at(next_k), next_block_a);
      }
      const bool packs_first_b = below == 0 && !last_depth;
      const auto multiply = [&](const auto& kernels, int64_t i, int64_t j) {
        const int64_t at = row + i * kPanelRows, columns = p.n - j;
        float* c = p.c + at * p.c_row + j;
        Target target{c, p.c_row, c, p.c_row, columns};
        if (k == 0) {
          target.start = p.start ? p.start + at * p.start_row + j : nullptr;
          target.start_row = p.start_row;
        }
        kernels[std::min(kPanelRows, rows - i * kPanelRows) - 1](block_a + i * kPanelRows * depth, b_at(block, j),
                                                                 depth, target, next_a.panel(), next_b);
      };
      if (row > 0) {
        if (packs_first_b) next_b = panel_of_b(block + 1, 0);
        for (int64_t i = 0; i < panels; ++i) {
          for (int64_t j = 0; j < p.n; j += kPanelColumns) {
            if (next_b.waits()) {
              multiply(p.n - j >= kPanelColumns ? kMicroKernels<true, true> : kMicroKernels<false, true>, i, j);
            } else {
              multiply(p.n - j >= kPanelColumns ? kMicroKernels<true, false> : kMicroKernels<false, false>, i, j);
            }
          }
        }
        next_b.rest();
      } else {
        // A panel of b is packed while the first rows are multiplied by the one before it.
        for (int64_t j = 0; j < p.n; j += kPanelColumns) {
          const int64_t after = j + kPanelColumns;
          if (after < p.n) {
            next_b = panel_of_b(block, after);
          } else if (packs_first_b) {
            next_b = panel_of_b(block + 1, 0);
          }
          for (int64_t i = 0; i < panels; ++i)
            multiply(p.n - j >= kPanelColumns ? kMicroKernels<true, true> : kMicroKernels<false, true>, i, j);
          next_b.rest();
        }
      }
      next_a.rest();
    }
  }
}

}  // namespace

void float_product_avx512(const FloatProduct& product);
void float_product_avx512(const FloatProduct& product) {
  static thread_local const BlockMemory memory;
  const Blocks blocks = memory.blocks();
  for (int64_t j = 0; j < product.n; j += kBlockColumns) {
    FloatProduct some = product;
    some.n = std::min(kBlockColumns, product.n - j);
    some.b = product.b.from(0, j);
    some.c = product.c + j;
    if (product.start) some.start = product.start + j;
    multiply_columns(some, blocks);
  }
}

}  // namespace easydel::operations::kernels
