// One vector, or a few dense ones: a warp, or some of a block, computes two rows at a time. The block normalizes the
// vectors itself and keeps them; whoever has both rows of a pair rotates them, or multiplies the gate with the other.
#include "easydel/operations/kernels/cuda/rows/row_around.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

template <class T, CodeFormat kFormat, int kVectors>
struct RowBlock {
  using Held = HeldVector<T, kFormat>;
  static constexpr bool kDense = kFormat == CodeFormat::Dense;
  static constexpr int kAhead = kDense ? 4 : 2;

  const RowProduct& a;
  const Held x;
  const float* nf4;

  // The vectors, normalized where that is asked for; `sums` has room for a warp.
  __device__ void hold(float* sums) const {
    const int packs = static_cast<int>(a.layout.width / Pack<T>::kCount);
    if (a.norm.weight) find_squares<T, kVectors>(a.x, 0, a.vectors, packs, sums);
    for (int v = 0; v < a.vectors; ++v) {
      const Held own{x.at + v * Held::bytes(a.layout.width) / 16, x.pieces};
      for (int i = threadIdx.x; i < packs; i += kRowThreads)
        own.put(i, normalized_pack<T>(a.x, a.norm, v, packs, i, sums[v]));
    }
  }

  __device__ const uint4* row_at(int matrix, int row) const {
    return static_cast<const uint4*>(a.matrices[matrix].weight.codes) + static_cast<int64_t>(row) * x.pieces;
  }
  struct Rows {
    const uint4 *first, *second;
    int matrix[2], row[2];
  };
  __device__ Rows pointers(const RowPair& pair) const {
    const int matrix = a.gated ? 1 : pair.matrix;
    const int second = pair.second < a.matrices[matrix].weight.rows ? pair.second : pair.first;
    return {row_at(pair.matrix, pair.first), row_at(matrix, second), {pair.matrix, matrix}, {pair.first, second}};
  }

  // Of both rows, kAhead pieces of this lane, each kWarp after the last and before `end`.
  struct Batch {
    uint4 first[kAhead], second[kAhead];
    float scales[kAhead][2];  // four bits
  };
  __device__ void load(Batch& batch, const Rows& rows, int from, int end) const {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = from + j * kWarp;
      if (i >= end) break;
      batch.first[j] = load_pack(rows.first + i), batch.second[j] = load_pack(rows.second + i);
      if constexpr (!kDense && kFormat != CodeFormat::Int8) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
          batch.scales[j][r] = scale_at(a.matrices[rows.matrix[r]].weight, a.layout, rows.row[r], i * kRunWeights);
      }
    }
  }
  __device__ void multiply(const Batch& batch, int from, int end, float (&sums)[kVectors][2]) const {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = from + j * kWarp;
      if (i >= end) break;
      if constexpr (kDense) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          if (v < a.vectors) add_dense<T>(batch.first[j], batch.second[j], Pack<T>{x.at[v * x.pieces + i]}, sums[v]);
        }
      } else if constexpr (kFormat == CodeFormat::Int8) {
        add_codes<T, kFormat>(batch.first[j], batch.second[j], x, i, nf4, sums[0]);
      } else {
        float own[2] = {};
        add_codes<T, kFormat>(batch.first[j], batch.second[j], x, i, nf4, own);
        sums[0][0] += batch.scales[j][0] * own[0], sums[0][1] += batch.scales[j][1] * own[1];
      }
    }
  }

  __device__ float result(const Rows& rows, int r, float sum) const {
    const RowProduct::Matrix& matrix = a.matrices[rows.matrix[r]];
    if constexpr (kFormat == CodeFormat::Int8) sum *= scale_at(matrix.weight, a.layout, rows.row[r], 0);
    return with_bias<T>(matrix, rows.row[r], sum);
  }
};

constexpr int kRowBlocks = 2;  // on a processor, as many as registers allow

// `split` warps have a pair. What comes next is on its way while a warp multiplies.
template <class T, CodeFormat kFormat, int kVectors>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    row_product_kernel(const __grid_constant__ RowProduct a, int pairs, int split) {
  extern __shared__ uint4 held[];
  __shared__ float sums[kWarp], parts[kRowWarps][kVectors][2], values[16];
  using Block = RowBlock<T, kFormat, kVectors>;
  const int pieces = static_cast<int>(a.layout.width / piece_weights<T, kFormat>());
  const Block block{a, {held, pieces}, values};
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = kRowWarps / split;
  const int share = (pieces + split - 1) / split, begin = warp % split * share, end = min(pieces, begin + share);
  constexpr int kStep = kWarp * Block::kAhead;
  const int steps = (share + kStep - 1) / kStep, stride = gridDim.x * each;
  const int rounds = (pairs - static_cast<int>(blockIdx.x) * each + stride - 1) / stride;
  int index = blockIdx.x * each + warp / split;
  RowPair pair = rows_of(a, min(index, pairs - 1));
  typename Block::Rows rows = block.pointers(pair);
  typename Block::Batch now, next;
  next_may_start();
  prefetch(rows.first + begin, (end - begin) * 16), prefetch(rows.second + begin, (end - begin) * 16);
  if (kFormat == CodeFormat::Nf4 && threadIdx.x < 16) values[threadIdx.x] = kNf4Values[threadIdx.x];
  wait_for_previous();
  block.load(now, rows, begin + lane, end);
  block.hold(sums);
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    RowPair next_pair = pair;
    typename Block::Rows next_rows = rows;
    float totals[kVectors][2] = {};
    for (int step = 0; step < steps; ++step) {
      const int from = begin + lane + step * kStep;
      if (step + 1 < steps) {
        block.load(next, rows, from + kStep, end);
      } else if (round + 1 < rounds) {
        next_pair = rows_of(a, min(index + stride, pairs - 1));
        next_rows = block.pointers(next_pair);
        block.load(next, next_rows, begin + lane, end);
      }
      block.multiply(now, from, end, totals);
      now = next;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      totals[v][0] = warp_sum(totals[v][0]), totals[v][1] = warp_sum(totals[v][1]);
    }
    if (split > 1) {
      if (lane == 0) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) parts[warp][v][0] = totals[v][0], parts[warp][v][1] = totals[v][1];
      }
      __syncthreads();
      if (warp % split == 0) {
        for (int w = 1; w < split; ++w) {
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            totals[v][0] += parts[warp + w][v][0], totals[v][1] += parts[warp + w][v][1];
        }
      }
      __syncthreads();
    }
    // A lane for each vector.
    float first = totals[0][0], second = totals[0][1];
#pragma unroll
    for (int v = 1; v < kVectors; ++v) {
      if (lane == v) first = totals[v][0], second = totals[v][1];
    }
    if (index < pairs && lane < a.vectors && warp % split == 0)
      store_pair<T>(a, pair, lane, block.result(rows, 0, first), block.result(rows, 1, second));
    index += stride, pair = next_pair, rows = next_rows;
  }
}

template <class T, CodeFormat kFormat, int kVectors>
void multiply(const RowProduct& a, Stream stream) {
  int64_t pairs = 0;
  for (int m = 0; m < a.count; ++m) pairs += (a.matrices[m].weight.rows + 1) / 2;
  if (a.gated) pairs = a.matrices[0].weight.rows;
  const int64_t most = kRowBlocks * int64_t{processors()};
  const int split =
      warps_for_row(pairs, a.layout.width / piece_weights<T, kFormat>(), most, RowBlock<T, kFormat, kVectors>::kAhead);
  const int64_t bytes = a.vectors * HeldVector<T, kFormat>::bytes(a.layout.width);
  const auto blocks = std::min<int64_t>(blocks_for(pairs, kRowWarps / split), most);
  const auto kernel = row_product_kernel<T, kFormat, kVectors>;
  allow_shared(kernel, bytes);
  launch_after(kernel, dim3(static_cast<unsigned>(blocks)), kRowThreads, static_cast<std::size_t>(bytes), stream, a,
               static_cast<int>(pairs), split);
}

}  // namespace

bool can_row_product(Element type, CodeFormat format, int64_t width, int64_t vectors) {
  const int64_t size = type == Element::Float32 ? 4 : 2;
  if (width <= 0 || vectors < 1) return false;
  if (format != CodeFormat::Dense) return vectors == 1 && width * 4 <= kMaxHeldBytes;
  return vectors <= 4 && width % (16 / size) == 0 && vectors * width * size <= kMaxHeldBytes;
}

void row_product(Element type, const RowProduct& args, Stream stream) {
  int64_t rows = 0;
  for (int m = 0; m < args.count; ++m) rows += args.matrices[m].weight.rows;
  if (rows == 0) return;
  if (type != Element::Float32 && (args.layout.codes != CodeFormat::Dense || args.vectors >= 3))
    return row_codes(type, args, stream);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (args.layout.codes != CodeFormat::Dense)
      return with_format(args.layout.codes, [&](auto format) { multiply<T, format(), 1>(args, stream); });
    if (args.vectors == 1) return multiply<T, CodeFormat::Dense, 1>(args, stream);
    if (args.vectors == 2) return multiply<T, CodeFormat::Dense, 2>(args, stream);
    multiply<T, CodeFormat::Dense, 4>(args, stream);
  });
}

}  // namespace easydel::operations::cuda_kernels
