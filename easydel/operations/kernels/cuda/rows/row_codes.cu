// One vector times packed weights in half precision, on tensor cores: a warp computes eight pairs of rows, sixteen
// bytes of each row in a lane. A tile has room for eight vectors; here each of the four lanes of a row has a column for
// what it has read, so that each piece of codes keeps its own sum, and its scale is applied to that.
#include "easydel/operations/kernels/cuda/packed_pairs.cuh"
#include "easydel/operations/kernels/cuda/rows/row_around.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kTilePairs = 8, kSpanPieces = 4;
constexpr int kTileVectors = 4;  // dense
constexpr int kCodeBlocks = 2;   // on a processor

// The vectors as the lanes take them, in units of eight elements: those that the codes of two tiles stand for.
// `offsets`: of int4 codes, which are added to a power of two and 8, what that adds to the product of a piece.
template <class T, CodeFormat kFormat>
struct CodeVector {
  static constexpr bool kInt4 = kFormat == CodeFormat::Int4, kDense = kFormat == CodeFormat::Dense;
  static constexpr int kPieceWeights = piece_weights<T, kFormat>(), kUnits = kPieceWeights / 8;
  static constexpr int kSlots = kDense ? kTileVectors : 1;  // for vectors

  uint4* units;
  float* offsets;

  __host__ __device__ static int64_t pieces(int64_t width) {
    const int64_t count = width / kPieceWeights;
    return (count + kSpanPieces - 1) / kSpanPieces * kSpanPieces;
  }
  static int64_t bytes(int64_t width) { return pieces(width) * (kUnits * kSlots * 16 + (kInt4 ? 4 : 0)); }

  __device__ CodeVector(uint4* held, int64_t width)
      : units(held), offsets(reinterpret_cast<float*>(held + pieces(width) * kUnits)) {}

  // By the whole block: pack i of vector v, of eight elements, is what f(v, i) gives; past the end are zeros.
  template <class F>
  __device__ void fill(int64_t width, int vectors, const F& f) const {
    if constexpr (kDense) {
      const int packs = static_cast<int>(width / 8), all = static_cast<int>(pieces(width));
      for (int i = threadIdx.x; i < all; i += kRowThreads) {
        Pack<T> x[kSlots];
#pragma unroll
        for (int v = 0; v < kSlots; ++v) x[v] = v < vectors && i < packs ? f(v, i) : Pack<T>{};
#pragma unroll
        for (int v = 0; v < kSlots; ++v) units[at(v, i)] = x[v].bits;
      }
    } else {
      fill_one(width, [&](int i) { return f(0, i); });
    }
  }
  // Piece i of dense vector v: lanes that read at once find theirs in different banks.
  __device__ static int at(int v, int i) { return (i / kSpanPieces * kSlots + v) * kSpanPieces + i % kSpanPieces; }

  template <class F>
  __device__ void fill_one(int64_t width, const F& f) const {
    constexpr int kAtOnce = 4;  // loads before the first is used
    const int packs = static_cast<int>(width / 8), all = static_cast<int>(pieces(width)) * kUnits;
    for (int first = threadIdx.x / kWarp * kWarp; first < all; first += kAtOnce * kRowThreads) {
      Pack<T> x[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kRowThreads + static_cast<int>(threadIdx.x % kWarp);
        x[j] = i < packs ? f(i) : Pack<T>{};
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kRowThreads + static_cast<int>(threadIdx.x % kWarp);
        if (first + j * kRowThreads < all) put(i, i < all, x[j]);
      }
    }
  }
  // By a whole warp, whose lanes have neighbouring packs.
  __device__ void put(int i, bool is_there, const Pack<T>& x) const {
    if constexpr (kInt4) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += x.get(e);
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (!is_there) return;
      // A word has the codes of columns 4 w to 4 w + 3 and of those sixteen further: of two bytes each, in one tile.
      const int j = i % 4, high = j / 2;
      auto* to = reinterpret_cast<uint32_t*>(units + i / 4 * 4 + j % 2 * 2);
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        const uint32_t one = word(x.bits, 2 * w), two = word(x.bits, 2 * w + 1);
        to[4 * w + high] = __byte_perm(one, two, 0x5410);
        to[4 * w + 2 + high] = __byte_perm(one, two, 0x7632);
      }
      if (j == 0) offsets[i / 4] = (std::is_same_v<T, __half> ? 1032.0f : 136.0f) * sum;
    } else if (is_there) {
      units[i] = x.bits;
    }
  }
};

template <class T, CodeFormat kFormat>
struct CodePairs {
  // Of a word of codes: the operands of two tiles (int8: of one, [0] and [1]).
  template <class Table>
  __device__ static void of(const Table& table, uint32_t codes, uint32_t (&pairs)[4]) {
    if constexpr (kFormat == CodeFormat::Nf4) {
      table.look_up(codes, threadIdx.x % kWarp, pairs);
    } else if constexpr (kFormat == CodeFormat::Int4) {
      constexpr uint32_t kBase = std::is_same_v<T, __half> ? 0x64006400u : 0x43004300u;  // 1024, 128
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = ((codes >> (4 * i)) & 0x000f000fu) | kBase;
    } else {
      uint32_t two[2];
      Pairs<T>::from_int8(codes, two);
      pairs[0] = two[0], pairs[1] = two[1];
    }
  }
};

template <class T, CodeFormat kFormat, ScaleFormat kScales>
struct CodeTile {
  static constexpr bool kDense = kFormat == CodeFormat::Dense;
  static constexpr bool kNibbles = !kDense && kFormat != CodeFormat::Int8;
  static constexpr int kResults = kDense ? 4 : 2;  // of a lane; dense: of vectors 2 t and 2 t + 1, first rows before
  using Vector = CodeVector<T, kFormat>;
  using Table = std::conditional_t<kFormat == CodeFormat::Nf4, PairTable<T>, NoTable>;

  // The rows of a pair: their codes, and the index of their first scale.
  struct Rows {
    const uint4* codes[2];
    int64_t scales[2];
    int matrix[2];
  };
  // This lane's sixteen bytes of both, and their scales as they are stored.
  struct Span {
    uint4 codes[2];
    uint32_t scales[2];
    float outer[2];
  };

  const RowProduct& a;
  const Vector& x;
  const Table& table;
  const int pieces, t;
  // Whether this lane has a vector's elements of what four lanes have read: vector g, or of packed weights the only one
  // in column 2 t.
  const bool multiplies;

  __device__ CodeTile(const RowProduct& args, const Vector& vector, const Table& pairs)
      : a(args),
        x(vector),
        table(pairs),
        pieces(static_cast<int>(args.layout.width / Vector::kPieceWeights)),
        t(threadIdx.x % 4),
        multiplies(kDense ? threadIdx.x % kWarp / 4 < kTileVectors : threadIdx.x % kWarp / 4 == 2 * (threadIdx.x % 4)) {
  }

  __device__ int second_of(const RowPair& pair, int matrix) const {
    return pair.second < a.matrices[matrix].weight.rows ? pair.second : pair.first;
  }
  __device__ Rows rows(const RowPair& pair) const {
    const int matrix = a.gated ? 1 : pair.matrix, second = second_of(pair, matrix);
    return {
        {static_cast<const uint4*>(a.matrices[pair.matrix].weight.codes) + static_cast<int64_t>(pair.first) * pieces,
         static_cast<const uint4*>(a.matrices[matrix].weight.codes) + static_cast<int64_t>(second) * pieces},
        {static_cast<int64_t>(pair.first) * a.layout.groups, static_cast<int64_t>(second) * a.layout.groups},
        {pair.matrix, matrix}};
  }

  // Of this warp's share of the tile, each line of 128 bytes.
  __device__ void prefetch_rows(const Rows& rows, int part, int split) const {
    for (int at = (t + 4 * part) * 8; at < pieces; at += 4 * split * 8) {
#pragma unroll
      for (int r = 0; r < 2; ++r) asm volatile("prefetch.global.L2 [%0];" ::"l"(rows.codes[r] + at));
    }
  }

  __device__ void load(Span& span, const Rows& rows, int index) const {
    const int piece = kSpanPieces * index + t;
#pragma unroll
    for (int r = 0; r < 2; ++r) span.codes[r] = piece < pieces ? load_pack(rows.codes[r] + piece) : uint4{};
    if constexpr (kNibbles) {
      const int with_scale = min(piece, pieces - 1);
      const int group = a.layout.group_shift >= 0 ? (with_scale * kRunWeights) >> a.layout.group_shift
                                                  : with_scale / (static_cast<int>(a.layout.group) / kRunWeights);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int64_t at = rows.scales[r] + group;
        const PackedRows& weight = a.matrices[rows.matrix[r]].weight;
        if constexpr (kScales == ScaleFormat::Float32) {
          span.scales[r] = __ldg(static_cast<const uint32_t*>(weight.scales) + at);
        } else if constexpr (kScales == ScaleFormat::Float16) {
          span.scales[r] = __ldg(static_cast<const uint16_t*>(weight.scales) + at);
        } else {
          span.scales[r] = __ldg(static_cast<const uint8_t*>(weight.scales) + at);
          const int64_t block = a.layout.outer_shift >= 0 ? at >> a.layout.outer_shift : at / a.layout.outer_block;
          span.outer[r] = __ldg(weight.outer + block);
        }
      }
    }
  }

  __device__ float scale(const Span& span, const int (&matrix)[2], int r) const {
    const uint32_t bits = span.scales[r];
    if constexpr (kScales == ScaleFormat::Float32) {
      return __uint_as_float(bits);
    } else if constexpr (kScales == ScaleFormat::Float16) {
      return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    } else {
      const PackedRows& weight = a.matrices[matrix[r]].weight;
      return __ldg(weight.map + bits) * span.outer[r] + __ldg(weight.offset);
    }
  }

  __device__ void multiply(const Span& span, const int (&matrix)[2], int index, float (&totals)[kResults]) const {
    const int piece = kSpanPieces * index + t;
    if constexpr (kDense) {
      const uint4 &one = span.codes[0], &two = span.codes[1];
      uint4 with{};
      if (multiplies) with = x.units[Vector::at(threadIdx.x % kWarp / 4, piece)];
      multiply_tile<T>(totals, one.x, two.x, one.y, two.y, with.x, with.y);
      multiply_tile<T>(totals, one.z, two.z, one.w, two.w, with.z, with.w);
    } else {
      multiply_codes(span, matrix, piece, totals);
    }
  }
  __device__ void multiply_codes(const Span& span, const int (&matrix)[2], int piece, float (&totals)[2]) const {
    float d[4] = {};
    if constexpr (Vector::kInt4) d[0] = d[2] = -x.offsets[piece];
#pragma unroll
    for (int u = 0; u < Vector::kUnits; ++u) {
      uint4 with{};
      if (multiplies) with = x.units[piece * Vector::kUnits + u];
      uint32_t one[4], two[4];
      if constexpr (kNibbles) {
        CodePairs<T, kFormat>::of(table, word(span.codes[0], u), one);
        CodePairs<T, kFormat>::of(table, word(span.codes[1], u), two);
      } else {
        uint32_t part[4];
#pragma unroll
        for (int w = 0; w < 2; ++w) {
          CodePairs<T, kFormat>::of(table, word(span.codes[0], 2 * u + w), part);
          one[2 * w] = part[0], one[2 * w + 1] = part[1];
          CodePairs<T, kFormat>::of(table, word(span.codes[1], 2 * u + w), part);
          two[2 * w] = part[0], two[2 * w + 1] = part[1];
        }
      }
      multiply_tile<T>(d, one[0], two[0], one[1], two[1], with.x, with.y);
      multiply_tile<T>(d, one[2], two[2], one[3], two[3], with.z, with.w);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) totals[r] += kNibbles ? scale(span, matrix, r) * d[2 * r] : d[2 * r];
  }

  __device__ float result(const RowPair& pair, int r, float sum) const {
    const int index = r == 1 && a.gated ? 1 : pair.matrix;
    const RowProduct::Matrix& matrix = a.matrices[index];
    const int row = r == 0 ? pair.first : second_of(pair, index);
    if constexpr (kFormat == CodeFormat::Int8)
      sum *= static_cast<const float*>(matrix.weight.scales)[row] * (1.0f / 127.0f);
    return with_bias<T>(matrix, row, sum);
  }
};

// `split` warps have the columns of a tile. The next pieces are on their way while a warp multiplies.
template <class T, CodeFormat kFormat, ScaleFormat kScales, int kAhead>
__global__ void __launch_bounds__(kRowThreads, kCodeBlocks)
    row_codes_kernel(const __grid_constant__ RowProduct a, int pairs, int split) {
  using Tile = CodeTile<T, kFormat, kScales>;
  extern __shared__ uint4 held[];
  __shared__ typename Tile::Table table;
  constexpr int kResults = Tile::kResults;
  __shared__ float sums[kWarp], parts[2][kRowWarps][kWarp][kResults];
  const typename Tile::Vector x(held, a.layout.width);
  const Tile tile(a, x, table);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, each = kRowWarps / split,
            part = warp % split;
  const int spans = (tile.pieces + kSpanPieces - 1) / kSpanPieces, share = (spans + split - 1) / split;
  const int tiles = (pairs + kTilePairs - 1) / kTilePairs, stride = gridDim.x * each;
  const int rounds = (tiles - static_cast<int>(blockIdx.x) * each + stride - 1) / stride;
  int index = blockIdx.x * each + warp / split;
  RowPair pair = rows_of(a, min(index * kTilePairs + g, pairs - 1));
  typename Tile::Rows rows = tile.rows(pair);
  next_may_start();
  tile.prefetch_rows(rows, part, split);
  table.fill();
  // Batches of kAhead pieces of each row: one is multiplied while the next is on its way. Waiting for single loads
  // instead would wait for later ones too, since a warp can tell only a few apart.
  typename Tile::Span now[kAhead], next[kAhead];
  const auto load = [&](typename Tile::Span(&to)[kAhead], int first) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j * split < spans) tile.load(to[j], rows, first + j * split);
    }
  };
  wait_for_previous();
  load(now, part);
  const int packs = static_cast<int>(a.layout.width / Pack<T>::kCount);
  if (a.norm.weight) find_squares<T, Tile::Vector::kSlots>(a.x, 0, a.vectors, packs, sums);
  x.fill(a.layout.width, a.vectors,
         [&](int v, int i) { return normalized_pack<T>(a.x, a.norm, v, packs, i, sums[v]); });
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    const int matrix[2] = {rows.matrix[0], rows.matrix[1]};
    const RowPair own = pair;
    float totals[kResults] = {};
    for (int step = 0; step < share; step += kAhead) {
      if (step + kAhead < share) {
        load(next, (step + kAhead) * split + part);
      } else if (round + 1 < rounds) {
        pair = rows_of(a, min((index + stride) * kTilePairs + g, pairs - 1));
        rows = tile.rows(pair);
        load(next, part);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int at = (step + j) * split + part;
        if (at < spans) tile.multiply(now[j], matrix, at, totals);
        now[j] = next[j];
      }
    }
    if constexpr (!Tile::kDense) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        totals[r] += __shfl_xor_sync(~0u, totals[r], 1);
        totals[r] += __shfl_xor_sync(~0u, totals[r], 2);
      }
    }
    if (split > 1) {
      auto& of_round = parts[round % 2];
#pragma unroll
      for (int r = 0; r < kResults; ++r) of_round[warp][lane][r] = totals[r];
      __syncthreads();
      for (int w = 1; w < split && part == 0; ++w) {
#pragma unroll
        for (int r = 0; r < kResults; ++r) totals[r] += of_round[warp + w][lane][r];
      }
    }
    if (part == 0 && index * kTilePairs + g < pairs) {
#pragma unroll
      for (int e = 0; e < kResults / 2; ++e) {
        const int v = Tile::kDense ? 2 * tile.t + e : tile.t;
        if (v < a.vectors)
          store_pair<T>(a, own, v, tile.result(own, 0, totals[e]), tile.result(own, 1, totals[kResults / 2 + e]));
      }
    }
    index += stride;
  }
}

// How many warps share a tile: whatever needs the fewest steps; if that leaves processors idle, more.
int warps_for_tile(int64_t tiles, int64_t spans, int64_t blocks, int ahead) {
  int best = 0;
  int64_t fewest = 0;
  for (int warps = 1; warps <= kRowWarps; warps *= 2) {
    const int64_t each = kRowWarps / warps, rounds = (tiles + blocks * each - 1) / (blocks * each);
    const int64_t steps = rounds * (((spans + warps - 1) / warps + ahead - 1) / ahead);
    const bool leaves_idle = best != 0 && tiles * best < int64_t{kRowWarps} * processors();
    if (best == 0 || steps < fewest || (steps == fewest && leaves_idle)) best = warps, fewest = steps;
  }
  return best;
}

template <class T, CodeFormat kFormat, ScaleFormat kScales>
void multiply(const RowProduct& a, Stream stream) {
  using Vector = CodeVector<T, kFormat>;
  constexpr int kAhead = kScales == ScaleFormat::Nested ? 2 : 4;  // as registers allow
  int64_t pairs = 0;
  for (int m = 0; m < a.count; ++m) pairs += (a.matrices[m].weight.rows + 1) / 2;
  if (a.gated) pairs = a.matrices[0].weight.rows;
  const int64_t most = int64_t{kCodeBlocks} * processors();
  const int64_t tiles = blocks_for(pairs, kTilePairs);
  const int split = warps_for_tile(tiles, Vector::pieces(a.layout.width) / kSpanPieces, most, kAhead);
  const auto blocks = std::min<int64_t>(blocks_for(tiles, kRowWarps / split), most);
  const int64_t bytes = Vector::bytes(a.layout.width);
  const auto kernel = row_codes_kernel<T, kFormat, kScales, kAhead>;
  constexpr int64_t kTable = kFormat == CodeFormat::Nf4 ? sizeof(PairTable<T>) : 0;
  allow_shared(kernel, bytes, kTable + 10 * 1024);
  launch_after(kernel, dim3(static_cast<unsigned>(blocks)), kRowThreads, static_cast<std::size_t>(bytes), stream, a,
               static_cast<int>(pairs), split);
}

}  // namespace

void row_codes(Element type, const RowProduct& a, Stream stream) {
  const auto run = [&](auto t) {
    using T = decltype(t);
    const auto with_scales = [&](auto format) {
      constexpr CodeFormat kFormat = decltype(format)::value;
      switch (a.layout.scales) {
        case ScaleFormat::Float32: return multiply<T, kFormat, ScaleFormat::Float32>(a, stream);
        case ScaleFormat::Float16: return multiply<T, kFormat, ScaleFormat::Float16>(a, stream);
        case ScaleFormat::Nested: return multiply<T, kFormat, ScaleFormat::Nested>(a, stream);
      }
    };
    switch (a.layout.codes) {
      case CodeFormat::Int8: return multiply<T, CodeFormat::Int8, ScaleFormat::Float32>(a, stream);
      case CodeFormat::Nf4: return with_scales(std::integral_constant<CodeFormat, CodeFormat::Nf4>());
      case CodeFormat::Int4: return with_scales(std::integral_constant<CodeFormat, CodeFormat::Int4>());
      case CodeFormat::Dense: return multiply<T, CodeFormat::Dense, ScaleFormat::Float32>(a, stream);
    }
  };
  type == Element::Float16 ? run(__half{}) : run(__nv_bfloat16{});
}

}  // namespace easydel::operations::cuda_kernels
