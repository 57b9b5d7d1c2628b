// Sizes: a panel of 12 rows and 32 columns of results takes 24 registers; a block of `a` and one of `b` stay in a
// core's second-level cache of 1 MB, and a panel of `a` in its first.
#include <sys/mman.h>

#include <new>

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

// With kAsks lines of what comes next are asked for on the way, in the gaps that the arithmetic leaves.
template <int kRows, bool kWhole, bool kAsks>
void multiply_panels(const float* a, const float* b, int64_t depth, const Target& t, Ahead& next) {
  __m512 sums[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = sums[r][1] = _mm512_setzero_ps();
    __builtin_prefetch(t.c + r * t.c_row, 1);
    __builtin_prefetch(t.c + r * t.c_row + kPanelColumns - 1, 1);
  }
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
  if constexpr (kAsks) {
    Ahead lines = next;
    for (; k + 4 <= depth; k += 4) {
      lines.ask_one();
      step();
      step();
      lines.ask_one();
      step();
      step();
    }
    next = lines;
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

using MicroKernel = void (*)(const float*, const float*, int64_t, const Target&, Ahead&);
template <bool kWhole, bool kAsks>
constexpr MicroKernel kMicroKernels[] = {
    multiply_panels<1, kWhole, kAsks>,  multiply_panels<2, kWhole, kAsks>,  multiply_panels<3, kWhole, kAsks>,
    multiply_panels<4, kWhole, kAsks>,  multiply_panels<5, kWhole, kAsks>,  multiply_panels<6, kWhole, kAsks>,
    multiply_panels<7, kWhole, kAsks>,  multiply_panels<8, kWhole, kAsks>,  multiply_panels<9, kWhole, kAsks>,
    multiply_panels<10, kWhole, kAsks>, multiply_panels<11, kWhole, kAsks>, multiply_panels<12, kWhole, kAsks>,
};

// The packed blocks of one thread, kept between calls in one large page. Not from malloc: memory that stays for good
// would cut its free space in pieces.
class Blocks {
 public:
  static constexpr std::size_t kBytes = 2 << 20;

  Blocks() : all_(::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (all_ == MAP_FAILED) throw std::bad_alloc();
    const auto begin = reinterpret_cast<std::uintptr_t>(all_);
    memory_ = reinterpret_cast<float*>((begin + kBytes - 1) / kBytes * kBytes);
#ifdef MADV_HUGEPAGE
    ::madvise(memory_, kBytes, MADV_HUGEPAGE);
#endif
  }
  ~Blocks() { ::munmap(all_, 2 * kBytes); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  float* b() const { return memory_; }
  float* a() const { return memory_ + kDepth * kBlockColumns; }

 private:
  void* all_;
  float* memory_;
};
static_assert((kDepth * (kBlockColumns + kBlockRows) + kLanes) * sizeof(float) <= Blocks::kBytes);

FloatMatrix part(const FloatMatrix& x, int64_t row, int64_t column) {
  return {x.data + row * x.row + column * x.column, x.row, x.column};
}

int64_t pieces(int64_t size, int64_t of) { return (size + of - 1) / of; }

// block_a and block_b are a thread's own Blocks, looked up once.
void multiply_columns(const FloatProduct& p, float* block_a, float* block_b) {
  // Blocks of about the same depth.
  const int64_t count = std::max<int64_t>(1, pieces(p.k, kDepth)), full_depth = pieces(pieces(p.k, count), 16) * 16;
  int64_t k = 0;
  do {
    const int64_t depth = std::min(full_depth, p.k - k), next_depth = std::min(full_depth, p.k - k - depth);
    for (int64_t row = 0; row < p.m; row += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, p.m - row), panels = pieces(rows, kPanelRows);
      pack_rows(part(p.a, row, k), rows, depth, block_a);
      const int64_t below = p.m - row - rows, times = panels * pieces(p.n, kPanelColumns);
      Ahead next_a = below > 0 ? Ahead(part(p.a, row + rows, k), std::min(below, kBlockRows), depth, times)
                               : Ahead(part(p.a, 0, k + depth), std::min(p.m, kBlockRows), next_depth, times);
      const auto multiply = [&](const auto& kernels, int64_t i, int64_t j, Ahead& next) {
        const int64_t at = row + i * kPanelRows, columns = p.n - j;
        float* c = p.c + at * p.c_row + j;
        Target target{c, p.c_row, c, p.c_row, columns};
        if (k == 0) {
          target.start = p.start ? p.start + at * p.start_row + j : nullptr;
          target.start_row = p.start_row;
        }
        kernels[std::min(kPanelRows, rows - i * kPanelRows) - 1](block_a + i * kPanelRows * depth, block_b + j * depth,
                                                                 depth, target, next);
      };
      if (row > 0) {
        for (int64_t i = 0; i < panels; ++i) {
          for (int64_t j = 0; j < p.n; j += kPanelColumns) {
            next_a.ask();
            multiply(p.n - j >= kPanelColumns ? kMicroKernels<true, false> : kMicroKernels<false, false>, i, j, next_a);
          }
        }
        continue;
      }
      // b is packed panel by panel between the first rows' products, which give memory the time to bring it.
      for (int64_t j = 0; j < p.n; j += kPanelColumns) {
        pack_columns(part(p.b, k, j), std::min(kPanelColumns, p.n - j), depth, block_b + j * depth);
        const int64_t after = j + kPanelColumns;
        Ahead next_b(part(p.b, k, after), depth, std::min(kPanelColumns, p.n - after), panels);
        for (int64_t i = 0; i < panels; ++i) {
          next_a.ask();
          multiply(p.n - j >= kPanelColumns ? kMicroKernels<true, true> : kMicroKernels<false, true>, i, j, next_b);
        }
      }
    }
    k += depth;
  } while (k < p.k);
}

}  // namespace

void float_product_avx512(const FloatProduct& product);
void float_product_avx512(const FloatProduct& product) {
  static thread_local const Blocks blocks;
  for (int64_t j = 0; j < product.n; j += kBlockColumns) {
    FloatProduct some = product;
    some.n = std::min(kBlockColumns, product.n - j);
    some.b = part(product.b, 0, j);
    some.c = product.c + j;
    if (product.start) some.start = product.start + j;
    multiply_columns(some, blocks.a(), blocks.b());
  }
}

}  // namespace easydel::operations::kernels
