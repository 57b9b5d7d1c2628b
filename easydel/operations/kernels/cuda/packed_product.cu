// Products with packed weights: the codes are read once, sixteen bytes at a time, and become the operands of tensor
// cores in registers. A thread block computes a tile of rows with all vectors; its warps split the columns.
#include "easydel/operations/kernels/cuda/packed_pairs.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kPackedWarps = 8, kPackedThreads = kPackedWarps * kWarp;
constexpr int kSpanBytes = 64;  // of a row that four lanes read at once, one piece of sixteen bytes each

// Of four lanes with four words each: lane i gets word i of each.
__device__ inline void exchange_words(uint4& x) {
  const int t = threadIdx.x % 4;
  uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = t & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const uint32_t got = __shfl_xor_sync(~0u, upper ? w[i] : w[i + step], step);
      (upper ? w[i] : w[i + step]) = got;
    }
  }
  x = {w[0], w[1], w[2], w[3]};
}

// A warp, lane = 4 * g + t: rows g and g + 8 of each tile of sixteen, vectors 8 n + g as columns. In which order a
// product adds up columns is free: each lane takes those of x that its codes stand for.
template <class T, CodeFormat kFormat, int kRows, int kVectors>
struct PackedWarp {
  static constexpr bool kNibbles = kFormat != CodeFormat::Int8;
  static constexpr int kSpan = kSpanBytes * weights_per_byte(kFormat);
  using Table = std::conditional_t<kFormat == CodeFormat::Nf4, PairTable<T>, NoTable>;

  struct Span {
    uint4 codes[kRows][2];
    float scales[kRows][2];  // four bits: of the piece that this lane has read
  };

  const PackedProduct& a;
  const PackedRows& weight;
  const Table& table;
  const int64_t first_row;
  const int g, t;
  float total[kRows][kVectors][4];

  __device__ PackedWarp(const PackedProduct& args, const PackedRows& rows, const Table& pairs, int64_t first)
      : a(args), weight(rows), table(pairs), first_row(first), g(threadIdx.x % kWarp / 4), t(threadIdx.x % 4) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kVectors; ++n) total[m][n][0] = total[m][n][1] = total[m][n][2] = total[m][n][3] = 0;
    }
  }

  // Rows and columns past the end count as codes zero, which x is zero for or whose sums are not stored.
  __device__ void load(Span& span, int64_t index) const {
    const int64_t column = index * kSpan + t * (kSpan / 4), row_bytes = a.layout.width / weights_per_byte(kFormat);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = first_row + 16 * m + 8 * half + g;
        const bool is_there = column < a.layout.width && row < weight.rows;
        const char* from =
            static_cast<const char*>(weight.codes) + row * row_bytes + column / weights_per_byte(kFormat);
        span.codes[m][half] = is_there ? load_pack(from) : uint4{};
        // Bytes have the scale of their row, which is every lane's.
        const bool has_scale = kNibbles ? is_there : row < weight.rows;
        span.scales[m][half] = has_scale ? scale_at(weight, a.layout, row, column) : 0.0f;
      }
    }
  }

  __device__ const T* x_at(int n, int64_t column) const {
    return static_cast<const T*>(a.x) + (8 * n + g) * a.layout.width + column;
  }
  __device__ bool has_vector(int n) const { return 8 * n + g < a.vectors; }

  __device__ void add(int m, int n, const float (&d)[4], float low, float high) {
    total[m][n][0] += low * d[0], total[m][n][1] += low * d[1];
    total[m][n][2] += high * d[2], total[m][n][3] += high * d[3];
  }

  __device__ void multiply(Span& span, int64_t index) {
    if constexpr (kNibbles) {
#pragma unroll
      for (int m = 0; m < kRows; ++m) exchange_words(span.codes[m][0]), exchange_words(span.codes[m][1]);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int64_t column = index * kSpan + c * kRunWeights;
        if (column >= a.layout.width) break;
        multiply_run(span, c, column);
      }
    } else {
      multiply_bytes(span, index * kSpan + 16 * t);
    }
  }

  // Columns [column, column + 32), of which this lane has eight.
  __device__ void multiply_run(const Span& span, int c, int64_t column) {
    uint32_t w[kRows][2][4];
    float scales[kRows][2];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t codes = word(span.codes[m][half], c);
        if constexpr (kFormat == CodeFormat::Nf4) {
          table.look_up(codes, threadIdx.x % kWarp, w[m][half]);
        } else {
          Pairs<T>::from_int4(codes, w[m][half]);
        }
        scales[m][half] = __shfl_sync(~0u, span.scales[m][half], c, 4);
      }
    }
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      uint4 x{};
      if (has_vector(n)) {
        if constexpr (kFormat == CodeFormat::Nf4) {
          x = __ldg(reinterpret_cast<const uint4*>(x_at(n, column + 8 * t)));
        } else {
          const uint2 low = __ldg(reinterpret_cast<const uint2*>(x_at(n, column + 4 * t)));
          const uint2 high = __ldg(reinterpret_cast<const uint2*>(x_at(n, column + 16 + 4 * t)));
          x = {low.x, low.y, high.x, high.y};
        }
      }
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        float d[4] = {};
        multiply_tile<T>(d, w[m][0][0], w[m][1][0], w[m][0][1], w[m][1][1], x.x, x.y);
        multiply_tile<T>(d, w[m][0][2], w[m][1][2], w[m][0][3], w[m][1][3], x.z, x.w);
        add(m, n, d, scales[m][0], scales[m][1]);
      }
    }
  }

  // Columns [column, column + 16) are this lane's.
  __device__ void multiply_bytes(const Span& span, int64_t column) {
    uint32_t w[kRows][2][4][2];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) Pairs<T>::from_int8(word(span.codes[m][half], i), w[m][half][i]);
      }
    }
    const bool is_there = column < a.layout.width;
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      uint4 x[2] = {};
      if (is_there && has_vector(n)) {
        x[0] = __ldg(reinterpret_cast<const uint4*>(x_at(n, column)));
        x[1] = __ldg(reinterpret_cast<const uint4*>(x_at(n, column + 8)));
      }
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        float d[4] = {};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto &low = w[m][0][i], &high = w[m][1][i];
          multiply_tile<T>(d, low[0], high[0], low[1], high[1], word(x[i / 2], 2 * (i % 2)),
                           word(x[i / 2], 2 * (i % 2) + 1));
        }
        add(m, n, d, span.scales[m][0], span.scales[m][1]);
      }
    }
  }

  // Every kPackedWarps-th span from `first` on, kAhead at a time, the next ones on their way meanwhile. `before` runs
  // once the first are on their way.
  template <int kAhead, class F>
  __device__ void run(int64_t first, const F& before) {
    const int64_t spans = (a.layout.width + kSpan - 1) / kSpan;
    Span now[kAhead], next[kAhead];
    const auto load_all = [&](Span(&to)[kAhead], int64_t from) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (from + i * kPackedWarps < spans) load(to[i], from + i * kPackedWarps);
      }
    };
    load_all(now, first);
    before();
    for (int64_t at = first; at < spans; at += kAhead * kPackedWarps) {
      load_all(next, at + kAhead * kPackedWarps);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (at + i * kPackedWarps < spans) multiply(now[i], at + i * kPackedWarps);
        now[i] = next[i];
      }
    }
  }
};

// As many as registers allow.
constexpr int blocks_per_processor(int tiles) { return tiles == 1 ? 3 : tiles == 2 ? 2 : 1; }

// Which matrix a tile of `rows` rows belongs to; leaves its number within it.
__device__ inline int matrix_of(const PackedProduct& a, int64_t& tile, int rows) {
  int m = 0;
  for (; m < a.count; ++m) {
    const int64_t tiles = (a.matrices[m].weight.rows + rows - 1) / rows;
    if (tile < tiles) break;
    tile -= tiles;
  }
  return m;
}

template <class T, CodeFormat kFormat, int kRows, int kVectors>
__global__ void __launch_bounds__(kPackedThreads, blocks_per_processor(kRows* kVectors))
    packed_tile_kernel(const __grid_constant__ PackedProduct a, int64_t tiles) {
  using Warp = PackedWarp<T, kFormat, kRows, kVectors>;
  constexpr int kTiles = kRows * kVectors, kAtOnce = kTiles < 4 ? kTiles : 4, kAhead = kTiles > 4 ? 1 : 2;
  __shared__ typename Warp::Table table;
  __shared__ alignas(16) float sums[kPackedWarps][kAtOnce][16 * 8];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  bool is_filled = false;
  for (int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    int64_t tile = at;
    const PackedProduct::Matrix& matrix = a.matrices[matrix_of(a, tile, 16 * kRows)];
    Warp state(a, matrix.weight, table, tile * 16 * kRows);
    state.template run<kAhead>(warp, [&] {
      if (kFormat != CodeFormat::Nf4 || is_filled) return;
      table.fill();
      __syncthreads();
      is_filled = true;
    });
#pragma unroll
    for (int first = 0; first < kTiles; first += kAtOnce) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const float(&d)[4] = state.total[(first + i) / kVectors][(first + i) % kVectors];
        reinterpret_cast<float4*>(sums[warp][i])[lane] = {d[0], d[1], d[2], d[3]};
      }
      __syncthreads();
      for (int i = threadIdx.x; i < kAtOnce * 128; i += kPackedThreads) {
        const int part = first + i / 128, column = i % 128 / 16, down = i % 16;
        const int64_t row = (tile * kRows + part / kVectors) * 16 + down, vector = part % kVectors * 8 + column;
        if (row >= matrix.weight.rows || vector >= a.vectors) continue;
        const int place = down % 8 * 16 + column / 2 * 4 + down / 8 * 2 + column % 2;
        float sum = matrix.bias ? wide(static_cast<const T*>(matrix.bias)[row]) : 0.0f;
#pragma unroll
        for (int w = 0; w < kPackedWarps; ++w) sum += sums[w][i / 128][place];
        static_cast<T*>(matrix.y)[vector * matrix.weight.rows + row] = narrow<T>(sum);
      }
      __syncthreads();
    }
  }
}

// A piece of sixteen bytes as floats, in order, without their scale. nf4: `values` is its table.
template <CodeFormat kFormat>
__device__ inline void piece_floats(const uint4& piece, const float* values,
                                    float (&y)[16 * weights_per_byte(kFormat)]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const uint32_t byte = (word(piece, i / 4) >> (8 * (i % 4))) & 0xff;
    if constexpr (kFormat == CodeFormat::Int8) {
      y[i] = static_cast<float>(static_cast<int8_t>(byte));
    } else if constexpr (kFormat == CodeFormat::Nf4) {
      y[2 * i] = values[byte >> 4], y[2 * i + 1] = values[byte & 15];
    } else {
      y[i] = static_cast<float>(static_cast<int>(byte & 15) - 8);
      y[i + 16] = static_cast<float>(static_cast<int>(byte >> 4) - 8);
    }
  }
}

// Several vectors in float32: each warp computes one row.
template <CodeFormat kFormat, int kVectors>
__global__ void packed_row_kernel(const __grid_constant__ PackedProduct a) {
  __shared__ float values[16];
  load_nf4(values);
  constexpr int kCount = 16 * weights_per_byte(kFormat);
  const int lane = threadIdx.x % kWarp;
  int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const int m = matrix_of(a, row, 1);
  if (m == a.count) return;
  const PackedProduct::Matrix& matrix = a.matrices[m];
  const int64_t pieces = a.layout.width / kCount;
  float sums[kVectors] = {};
  for (int64_t i = lane; i < pieces; i += kWarp) {
    float w[kCount];
    piece_floats<kFormat>(Pack<float>::at(matrix.weight.codes, row * pieces + i).bits, values, w);
    const float scale = scale_at(matrix.weight, a.layout, row, i * kCount);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v >= a.vectors) break;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
        const Pack<float> x = Pack<float>::at(a.x, (v * pieces + i) * (kCount / 4) + j);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum += w[4 * j + e] * x.get(e);
      }
      sums[v] += scale * sum;
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (v >= a.vectors) break;
    const float sum = warp_sum(sums[v]);
    if (lane != 0) continue;
    static_cast<float*>(matrix.y)[v * matrix.weight.rows + row] =
        matrix.bias ? sum + static_cast<const float*>(matrix.bias)[row] : sum;
  }
}

// Each thread unpacks one piece.
template <class T, CodeFormat kFormat>
__global__ void unpack_kernel(PackedRows weight, PackedLayout layout, int64_t begin, int64_t pieces, void* y) {
  __shared__ float values[16];
  load_nf4(values);
  constexpr int kCount = 16 * weights_per_byte(kFormat);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, in_row = layout.width / kCount;
  if (index >= pieces) return;
  const int64_t row = begin + index / in_row, column = index % in_row * kCount;
  const float scale = scale_at(weight, layout, row, column);
  float w[kCount];
  piece_floats<kFormat>(load_pack(static_cast<const uint4*>(weight.codes) + begin * in_row + index), values, w);
  auto* to = static_cast<uint4*>(y) + index * (kCount / Pack<T>::kCount);
#pragma unroll
  for (int i = 0; i < kCount / Pack<T>::kCount; ++i) {
    Pack<T> part;
#pragma unroll
    for (int j = 0; j < Pack<T>::kCount; ++j) part.set(j, w[i * Pack<T>::kCount + j] * scale);
    to[i] = part.bits;
  }
}

template <class T, CodeFormat kFormat, int kRows, int kVectors>
void multiply_tiles(const PackedProduct& a, Stream stream) {
  int64_t tiles = 0;
  for (int m = 0; m < a.count; ++m) tiles += blocks_for(a.matrices[m].weight.rows, 16 * kRows);
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(tiles, int64_t{blocks_per_processor(kRows * kVectors)} * processors()));
  packed_tile_kernel<T, kFormat, kRows, kVectors><<<blocks, kPackedThreads, 0, stream>>>(a, tiles);
}

template <CodeFormat kFormat, int kVectors>
void multiply_rows(const PackedProduct& a, Stream stream) {
  int64_t rows = 0;
  for (int m = 0; m < a.count; ++m) rows += a.matrices[m].weight.rows;
  constexpr int kThreads = 128;
  packed_row_kernel<kFormat, kVectors><<<blocks_for(rows, kThreads / kWarp), kThreads, 0, stream>>>(a);
}

template <class T, CodeFormat kFormat>
void multiply_packed(const PackedProduct& a, Stream stream) {
  if constexpr (std::is_same_v<T, float>) {
    multiply_rows<kFormat, 8>(a, stream);
  } else if (a.vectors <= 8) {
    multiply_tiles<T, kFormat, 1, 1>(a, stream);
  } else if (a.vectors <= 16) {
    multiply_tiles<T, kFormat, 1, 2>(a, stream);
  } else if (a.vectors <= 32) {
    multiply_tiles<T, kFormat, 2, 4>(a, stream);
  } else {
    multiply_tiles<T, kFormat, 2, 8>(a, stream);
  }
}

}  // namespace

bool can_read_packed(const PackedLayout& layout) {
  if (layout.width <= 0) return false;
  return layout.codes == CodeFormat::Int8 ? layout.width % 16 == 0 : layout.group % kRunWeights == 0;
}

int64_t most_packed_vectors(Element type) { return type == Element::Float32 ? 8 : 64; }

void packed_product(Element type, const PackedProduct& args, Stream stream) {
  int64_t rows = 0;
  for (int m = 0; m < args.count; ++m) rows += args.matrices[m].weight.rows;
  if (rows == 0 || args.vectors == 0) return;
  with_type(type, [&](auto t) {
    with_format(args.layout.codes, [&](auto format) { multiply_packed<decltype(t), format()>(args, stream); });
  });
}

void unpack_rows(Element type, const PackedRows& weight, const PackedLayout& layout, int64_t begin, int64_t count,
                 void* y, Stream stream) {
  if (count == 0) return;
  with_type(type, [&](auto t) {
    with_format(layout.codes, [&](auto format) {
      const int64_t pieces = count * (layout.width / (16 * weights_per_byte(format())));
      unpack_kernel<decltype(t), format()>
          <<<blocks_for(pieces, 256), 256, 0, stream>>>(weight, layout, begin, pieces, y);
    });
  });
}

}  // namespace easydel::operations::cuda_kernels
