// A block multiplies tiles of 128 by up to 256, one after the other: a thread brings 64 in depth at a time with TMA,
// two groups of 128 threads multiply them with wgmma, and store a tile while they multiply the next. Two blocks make a
// cluster that shares the wider side of its tiles. What is ragged (an expert's rows) lies on the wider side, whose size
// may be any, or in depth.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/grouped_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kM = 128, kN = 256, kK = 64;
constexpr int kPart = 64, kParts = kN / kPart;  // of the wider side, as it is loaded and stored
constexpr int kUnit = 16;                       // a tile of rows is as wide as some of these
constexpr int kStages = 4, kConsumers = 2, kGroup = 128, kThreads = kGroup * (kConsumers + 1), kCluster = 2;
constexpr int kTileA = kM * kK * 2, kTileB = kN * kK * 2, kStage = kTileA + kTileB, kPartB = kPart * kK * 2;
constexpr int kHalf = kPart * 32 * 2, kBuffer = 3 * kHalf;  // what a group stores at a time: gates, ups, gated
constexpr int kAlign = 1024;                                // of tiles, for the swizzle
constexpr int kShared = kAlign + kStages * kStage + kConsumers * kBuffer;
constexpr int kSteps = 4;  // a part is stored after so many steps in depth, of the second group half of them later

enum class Kind {
  Rows,       // the wide side is an expert's rows, and of the narrow one each row has all of the depth
  DeepRows,   // as Rows, but each row of the narrow side has all of its width
  GatedRows,  // as Rows, with gates and ups
  Outer,      // the depth is an expert's rows
};

struct Tiles {
  const int32_t* ends;
  int experts;
  int m, n;              // n: 0 where it is an expert's rows
  int depth;             // 0 where it is an expert's rows
  __nv_bfloat16* out;    // of rows; may be null where they are gated
  __nv_bfloat16* gated;  // of gated rows
  bool gelu;
};

__device__ __forceinline__ uint32_t address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Barriers of a block, in shared memory.
__device__ __forceinline__ void init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(count));
}
__device__ __forceinline__ void arrive_for(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}
// Nothing was written that the other block reads, so this needs no wider release.
__device__ __forceinline__ void arrive_at(uint64_t* barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(address(barrier)),
      "r"(block)
      : "memory");
}
__device__ __forceinline__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni through;\n"
      "bra.uni again;\n"
      "through:\n}" ::"r"(address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void group_sync(int group) { asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); }
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void before_async_reads() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// What is the same in all threads of a warp, so that the compiler knows it.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }
// True for one thread of the warp, always the same.
__device__ __forceinline__ bool elect() {
  uint32_t elected = 0;
  asm volatile("{\n.reg .pred one;\nelect.sync _|one, 0xffffffff;\nselp.u32 %0, 1, 0, one;\n}" : "=r"(elected));
  return elected;
}

// Boxes between global and shared memory. What lies outside of the matrix is read as zeros, and not written. kForAll:
// to the same place in each block of the cluster.
#define EASYDEL_LOAD(DIMS, PLACE, ...)                                                             \
  if constexpr (kForAll) {                                                                         \
    asm volatile("cp.async.bulk.tensor." DIMS                                                      \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"                       \
                 ".multicast::cluster [%0], [%1, " PLACE "], [%2], %3;" ::"r"(address(to)),        \
                 "l"(&map), "r"(address(barrier)), "h"(uint16_t{(1 << kCluster) - 1}), __VA_ARGS__ \
                 : "memory");                                                                      \
  } else {                                                                                         \
    asm volatile("cp.async.bulk.tensor." DIMS                                                      \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0],"                 \
                 " [%1, " PLACE "], [%2];" ::"r"(address(to)),                                     \
                 "l"(&map), "r"(address(barrier)), "r"(0), __VA_ARGS__                             \
                 : "memory");                                                                      \
  }
template <bool kForAll>
__device__ __forceinline__ void load(void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y) {
  EASYDEL_LOAD("2d", "{%4, %5}", "r"(x), "r"(y));
}
template <bool kForAll>
__device__ __forceinline__ void load(void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y, int z) {
  EASYDEL_LOAD("3d", "{%4, %5, %6}", "r"(x), "r"(y), "r"(z));
}
template <bool kForAll>
__device__ __forceinline__ void load(void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y, int z, int u,
                                     int v) {
  EASYDEL_LOAD("5d", "{%4, %5, %6, %7, %8}", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}
__device__ __forceinline__ void store(const CUtensorMap& map, const void* from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(address(from)), "r"(x), "r"(y)
               : "memory");
}
__device__ __forceinline__ void store(const CUtensorMap& map, const void* from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
               "r"(address(from)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// How wgmma finds a tile whose rows are 128 bytes, swizzled. Rows in depth (kDeepRows): the next 64 features lie kK
// rows on.
template <bool kDeepRows>
__device__ __forceinline__ uint64_t descriptor(const void* tile) {
  constexpr uint64_t kLeading = kDeepRows ? kK * 128 / 16 : 1, kStride = 1024 / 16;
  return (uint64_t{1} << 62) | (kStride << 32) | (kLeading << 16) | ((address(tile) & 0x3ffff) >> 4);
}

#define EASYDEL_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EASYDEL_D16(i) EASYDEL_D4(i), EASYDEL_D4(i + 4), EASYDEL_D4(i + 8), EASYDEL_D4(i + 12)
#define EASYDEL_D64(i) EASYDEL_D16(i), EASYDEL_D16(i + 16), EASYDEL_D16(i + 32), EASYDEL_D16(i + 48)
#define EASYDEL_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define EASYDEL_32 EASYDEL_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define EASYDEL_48 EASYDEL_32 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define EASYDEL_64 EASYDEL_48 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define EASYDEL_80 EASYDEL_64 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define EASYDEL_96 EASYDEL_80 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define EASYDEL_112 EASYDEL_96 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define EASYDEL_128 EASYDEL_112 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define EASYDEL_144 EASYDEL_128 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define EASYDEL_160 EASYDEL_144 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define EASYDEL_176 EASYDEL_160 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define EASYDEL_192 EASYDEL_176 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define EASYDEL_208 EASYDEL_192 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define EASYDEL_224 EASYDEL_208 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define EASYDEL_240 EASYDEL_224 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define EASYDEL_256 EASYDEL_240 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define EASYDEL_MULTIPLY(WIDE)                                                         \
  if constexpr (kWide == WIDE) {                                                       \
    asm volatile(                                                                      \
        "{\n.reg .pred keep;\nsetp.ne.b32 keep, %130, 0;\n"                            \
        "wgmma.mma_async.sync.aligned.m64n" #WIDE "k16.f32.bf16.bf16 {" EASYDEL_##WIDE \
        "}, %128, %129, keep, 1, 1, %131, %132;\n}"                                    \
        : EASYDEL_D64(0), EASYDEL_D64(64)                                              \
        : "l"(a), "l"(b), "r"(keep), "n"(int{kDeepA}), "n"(int{kDeepB}));              \
  }
#define EASYDEL_FOR_WIDTHS(F) \
  F(16) F(32) F(48) F(64) F(80) F(96) F(112) F(128) F(144) F(160) F(176) F(192) F(208) F(224) F(240) F(256)

// d = a * b, plus d where `keep` is not 0: 64 by kWide, 16 in depth.
template <int kWide, bool kDeepA, bool kDeepB>
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, int keep) {
  EASYDEL_FOR_WIDTHS(EASYDEL_MULTIPLY)
}

// Four 8 by 8 matrices of a warp to shared memory, rows or (kTransposed) columns at the lanes' addresses.
template <bool kTransposed>
__device__ __forceinline__ void store_matrices(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
  }
}

__device__ __forceinline__ uint32_t pair_of(float x, float y) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t gate(uint32_t gates, uint32_t ups, bool gelu) {
  const float2 g = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&gates));
  const uint32_t active = pair_of(activate(g.x, gelu).value, activate(g.y, gelu).value);
  const __nv_bfloat162 y =
      __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&active), *reinterpret_cast<const __nv_bfloat162*>(&ups));
  return *reinterpret_cast<const uint32_t*>(&y);
}

struct Tile {
  bool any, alone;  // alone: the blocks share the narrow side, not the wide one
  int expert, begin, depth, m, n, width;
};

// The tiles of one block, in order; all roles walk through the same ones. The blocks of a cluster have two neighbours
// on the narrow side and the same of the wide one; in the last of an odd number of columns it is the other way round.
// The tiles of an expert are as wide as each other, within a unit: so the blocks stay together, and what they read in
// the cache.
struct Walk {
  const Tiles& tiles;
  int rank, columns, step, place, expert = 0, begin = 0, end = 0;

  __device__ __forceinline__ Walk(const Tiles& tiles, int rank)
      : tiles(tiles),
        rank(rank),
        columns((tiles.m + kM - 1) / kM),
        step(static_cast<int>(gridDim.x) / kCluster),
        place(static_cast<int>(blockIdx.x) / kCluster - step),
        end(uniform(tiles.ends[0])) {}
  __device__ __forceinline__ Tile next() {
    const int unit = tiles.n ? kPart : kUnit, pairs = columns / kCluster;
    for (place += step; expert < tiles.experts;) {
      const int width = tiles.n ? tiles.n : end - begin, count = (width + kN - 1) / kN, shared = pairs * count;
      const int here = shared + (columns % kCluster ? (count + kCluster - 1) / kCluster : 0);
      if (place < here) {
        const bool alone = place >= shared;
        const int tile = alone ? (place - shared) * kCluster + rank : place / pairs;  // may be none, with no width
        const int column = alone ? columns - 1 : place % pairs * kCluster + rank;
        const int units = (width + unit - 1) / unit, each = units / count, more = units % count;
        const auto edge = [&](int tile) { return min(width, (tile * each + min(tile, more)) * unit); };
        return {true,
                alone,
                expert,
                begin,
                tiles.depth ? tiles.depth : end - begin,
                column * kM,
                edge(tile),
                edge(tile + 1) - edge(tile)};
      }
      place -= here;
      begin = end;
      if (++expert < tiles.experts) end = uniform(tiles.ends[expert]);
    }
    return {};
  }
};

struct Stage {
  int index = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++index == kStages) {
      index = 0;
      parity ^= 1;
    }
  }
};

template <Kind kKind>
struct Form {
  static constexpr bool kOuter = kKind == Kind::Outer, kGated = kKind == Kind::GatedRows;
  static constexpr bool kDeepA = kOuter || kKind == Kind::DeepRows;
};

// A thread's place, and what the block shares: the stages, behind them a buffer for each group of consumers, and two
// barriers for each stage.
struct Block {
  uint8_t* space;
  uint64_t *full, *empty;
  int rank, group, thread, warp, lane;

  __device__ __forceinline__ uint8_t* a(const Stage& stage) const { return space + stage.index * kStage; }
  __device__ __forceinline__ uint8_t* b(const Stage& stage) const { return a(stage) + kTileA; }
  __device__ __forceinline__ uint8_t* buffer() const { return space + kStages * kStage + group * kBuffer; }
};

// A tile's way:
//
//   global memory                 shared memory             registers of a group             shared     global memory
//   a: 128 of the narrow side --> kStages of a [128, 64] --> d [64, width] --> kept (bf16) --> buffer --> out
//   b: the wide side          -->        and b [256, 64] -'
//                             TMA                       wgmma                         stmatrix       TMA
//
//   producer: waits for `empty`,   consumers: wait for `full`,         epilogue: a part of the tile before, between
//   loads, and arrives at `full`   multiply, and arrive at `empty`     steps in depth of the next one

// Producer: brings the steps in depth of a tile. kAlone: the blocks share its narrow side.
template <Kind kKind, bool kAlone>
__device__ __forceinline__ void load_tile(const Block& block, Stage& stage, const Tile& tile, const CUtensorMap& map_a,
                                          const CUtensorMap& map_b) {
  using F = Form<kKind>;
  const int parts = (tile.width + kPart - 1) / kPart;
  for (int k = 0; k < tile.depth; k += kK, stage.advance()) {
    uint8_t *a = block.a(stage), *b = block.b(stage);
    uint64_t* ready = &block.full[stage.index];
    const auto load_a = [&](int i) {
      uint8_t* half = a + i * kTileA / 2;
      const int m = tile.m + i * kM / 2;
      if constexpr (F::kOuter) {
        load<kAlone>(half, map_a, ready, m, tile.begin + k);
      } else if constexpr (F::kDeepA) {
        load<kAlone>(half, map_a, ready, m, k, tile.expert);
      } else if constexpr (F::kGated) {
        load<kAlone>(half, map_a, ready, k, 0, 0, m / 16, tile.expert);
      } else {
        load<kAlone>(half, map_a, ready, k, m, tile.expert);
      }
    };
    wait(&block.empty[stage.index], stage.parity ^ 1);
    if (elect()) {
      arrive_for(ready, kTileA + parts * kPartB);
      if (kAlone) {
        load_a(block.rank);
      } else {
        load_a(0), load_a(1);
      }
      for (int i = kAlone ? 0 : block.rank; i < parts; i += kAlone ? 1 : kCluster) {
        const int n = tile.n + i * kPart;
        load<!kAlone>(b + i * kPartB, map_b, ready, F::kOuter ? n : k, tile.begin + (F::kOuter ? k : n));
      }
    }
    __syncwarp();
  }
}

template <Kind kKind>
__device__ __forceinline__ void produce(const Block& block, Walk& walk, const CUtensorMap& map_a,
                                        const CUtensorMap& map_b) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  Stage stage;
  while (block.warp == 0) {
    const Tile tile = walk.next();
    if (!tile.any) break;
    if (tile.alone) {
      load_tile<kKind, true>(block, stage, tile, map_a, map_b);
    } else {
      load_tile<kKind, false>(block, stage, tile, map_a, map_b);
    }
  }
}

// Epilogue, first half: columns [kFirst, kFirst + kPart) of a tile from registers to the group's buffer, swizzled.
template <Kind kKind, int kFirst>
__device__ __forceinline__ void fill_buffer(const Block& block, const Tiles& tiles, const uint32_t (&kept)[64]) {
  using F = Form<kKind>;
  uint8_t* buffer = block.buffer();
  const int warp = block.warp, lane = block.lane;
#pragma unroll
  for (int j = 0; j < kPart / 8; j += F::kGated ? 4 : 2) {
    const uint32_t* p = kept + kFirst / 4 + 2 * j;
    if constexpr (F::kGated) {
      const int line = j * 8 + lane;
      const uint32_t to = address(buffer + line * 64 + (warp ^ (line / 2 % 4)) * 16);
      const auto store_gated = [&](bool gelu) {
        store_matrices<true>(to + 2 * kHalf, gate(p[0], p[1], gelu), gate(p[2], p[3], gelu), gate(p[4], p[5], gelu),
                             gate(p[6], p[7], gelu));
      };
      store_matrices<true>(to, p[0], p[2], p[4], p[6]);
      store_matrices<true>(to + kHalf, p[1], p[3], p[5], p[7]);
      if (tiles.gelu) {
        store_gated(true);
      } else {
        store_gated(false);
      }
    } else {
      const int matrix = lane / 8, row = lane % 8, columns = j + matrix / 2;  // which 8 of them
      const int line = F::kOuter ? warp * 16 + matrix % 2 * 8 + row : columns * 8 + row;
      const int chunk = F::kOuter ? columns : 2 * warp + matrix % 2;
      store_matrices<!F::kOuter>(address(buffer + line * 128 + (chunk ^ row) * 16), p[0], p[1], p[2], p[3]);
    }
  }
}

// Second half: from the buffer to global memory.
template <Kind kKind, int kFirst>
__device__ __forceinline__ void send_buffer(const Block& block, const Tiles& tiles, const Tile& tile,
                                            const CUtensorMap& map_out, const CUtensorMap& map_gated) {
  using F = Form<kKind>;
  uint8_t* buffer = block.buffer();
  const int thread = block.thread;
  const int m = (tile.m + block.group * kM / 2) / (F::kGated ? 2 : 1), columns = tiles.m / (F::kGated ? 2 : 1);
  const int at = (F::kOuter ? 0 : tile.begin) + tile.n + kFirst;
  if constexpr (F::kOuter) {
    if (thread == 0 && m < columns) store(map_out, buffer, at, m, tile.expert);
  } else {
    const int rows = min(kPart, tile.width - kFirst), whole = rows / kUnit * kUnit;
    if (thread == 0 && m < columns) {
#pragma unroll 1
      for (int i = 0; i < whole; i += kUnit) {
        if constexpr (!F::kGated) {
          store(map_out, buffer + i * 128, m, at + i);
          continue;
        }
        if (tiles.out) {
          store(map_out, buffer + i * 64, m, 0, at + i);
          store(map_out, buffer + kHalf + i * 64, m, 1, at + i);
        }
        store(map_gated, buffer + 2 * kHalf + i * 64, m, at + i);
      }
    }
    // The rest row by row, since those behind are the next expert's.
    constexpr int kChunks = F::kGated ? 4 : 8;
    const int row = whole + thread / kChunks, chunk = thread % kChunks, column = m + chunk * 8;
    if (row < rows && column < columns) {
      const uint8_t* from = buffer + (row * kChunks + (chunk ^ (F::kGated ? row / 2 % 4 : row % 8))) * 16;
      const auto copy = [&](__nv_bfloat16* to, int half) {
        *reinterpret_cast<uint4*>(to + column) = *reinterpret_cast<const uint4*>(from + half * kHalf);
      };
      const int64_t line = at + row;
      if (!F::kGated || tiles.out) copy(tiles.out + line * tiles.m, 0);
      if (F::kGated && tiles.out) copy(tiles.out + line * tiles.m + columns, 1);
      if (F::kGated) copy(tiles.gated + line * columns, 2);
    }
  }
}

template <Kind kKind, int kFirst>
__device__ __forceinline__ void store_part(const Block& block, const Tiles& tiles, const Tile& tile,
                                           const uint32_t (&kept)[64], const CUtensorMap& map_out,
                                           const CUtensorMap& map_gated) {
  if (kFirst >= tile.width) return;
  if (block.thread == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  group_sync(block.group);
  fill_buffer<kKind, kFirst>(block, tiles, kept);
  before_async_reads();
  group_sync(block.group);
  send_buffer<kKind, kFirst>(block, tiles, tile, map_out, map_gated);
  if (block.thread == 0) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// How far a group of consumers has come in the depth of a tile.
struct Progress {
  int depth, k = 0, last = -1;  // last: the stage that is still being read
};

// Consumer: one step in depth. The stage before it is read by then, and given back.
template <Kind kKind, int kWide>
__device__ __forceinline__ void multiply_step(const Block& block, Stage& stage, Progress& at, float (&d)[128]) {
  using F = Form<kKind>;
  wait(&block.full[stage.index], stage.parity);
  uint8_t *a = block.a(stage) + block.group * kTileA / 2, *b = block.b(stage);
  if (F::kOuter && at.k + kK > at.depth) {  // here the next expert's rows begin
    uint4* rest = reinterpret_cast<uint4*>(a + (at.depth - at.k) * 128);
    for (int i = block.thread; i < (kK - (at.depth - at.k)) * 8; i += kGroup) rest[i] = uint4{};
    before_async_reads();
    group_sync(block.group);
  }
  const uint64_t at_a = descriptor<F::kDeepA>(a), at_b = descriptor<F::kOuter>(b);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kK / 16; ++i) {
    multiply<kWide, F::kDeepA, F::kOuter>(d, at_a + i * (F::kDeepA ? 128 : 2), at_b + i * (F::kOuter ? 128 : 2),
                                          at.k | i);
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
  if (at.last >= 0 && block.thread < kCluster) arrive_at(&block.empty[at.last], block.thread);
  at.last = stage.index;
  stage.advance();
  at.k += kK;
}

// The width is a part of the instruction. Outer: whole parts only.
template <Kind kKind>
__device__ __forceinline__ void multiply_until(int end, int units, const Block& block, Stage& stage, Progress& at,
                                               float (&d)[128]) {
  constexpr bool kOuter = Form<kKind>::kOuter;
#define EASYDEL_CASE(WIDE)                                                \
  case WIDE / kUnit:                                                      \
    if constexpr (!kOuter || WIDE % kPart == 0)                           \
      while (at.k < end) multiply_step<kKind, WIDE>(block, stage, at, d); \
    break;
  switch (kOuter ? (units + kParts - 1) / kParts * kParts : units) { EASYDEL_FOR_WIDTHS(EASYDEL_CASE) }
}

template <Kind kKind>
__device__ __forceinline__ void consume(const Block& block, Walk& walk, const Tiles& tiles, const CUtensorMap& map_out,
                                        const CUtensorMap& map_gated) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[128];
  uint32_t kept[64];  // the tile before: pairs of neighbours in its width
  Stage stage;
  Tile before{}, tile = walk.next(), next{};
  do {
    const int units = uniform(max(1, (tile.width + kUnit - 1) / kUnit));
    Progress at{tile.depth};
#pragma unroll 1
    for (int part = 0; part <= kParts; ++part) {
      const int end = (kSteps * (part + 1) + kSteps / 2 * block.group) * kK;
      multiply_until<kKind>(part < kParts ? min(at.depth, end) : at.depth, units, block, stage, at, d);
      switch (part) {
        case 0: store_part<kKind, 0>(block, tiles, before, kept, map_out, map_gated); break;
        case 1: store_part<kKind, kPart>(block, tiles, before, kept, map_out, map_gated); break;
        case 2: store_part<kKind, 2 * kPart>(block, tiles, before, kept, map_out, map_gated); break;
        case 3:
          store_part<kKind, 3 * kPart>(block, tiles, before, kept, map_out, map_gated);
          next = walk.next();
          break;
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (at.last >= 0 && block.thread < kCluster) arrive_at(&block.empty[at.last], block.thread);
#pragma unroll
    for (int i = 0; i < 64; ++i) kept[i] = Form<kKind>::kOuter && at.depth == 0 ? 0 : pair_of(d[2 * i], d[2 * i + 1]);
    before = tile, tile = next;
  } while (before.any);
  if (block.thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// a: the narrow side, b: the wide side. Outer: out is [e][m, n]; else it is [n, m]. Gated: every 8 rows of a's first
// half are followed by 8 of its second, so that a thread has the gates and the ups of the same places.
template <Kind kKind>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                   const __grid_constant__ CUtensorMap map_out, const __grid_constant__ CUtensorMap map_gated,
                   const __grid_constant__ Tiles tiles) {
  extern __shared__ uint8_t raw[];
  uint8_t* space = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + kAlign - 1) & ~uintptr_t{kAlign - 1});
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init(&full[s], 1);
      init(&empty[s], kConsumers * kCluster);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  const int group = uniform(threadIdx.x / kGroup), thread = threadIdx.x % kGroup, rank = blockIdx.x % kCluster;
  const Block block{space, full, empty, rank, group, thread, uniform(thread / 32), thread % 32};
  Walk walk(tiles, rank);
  if (group == kConsumers) {
    produce<kKind>(block, walk, map_a, map_b);
  } else {
    consume<kKind>(block, walk, tiles, map_out, map_gated);
  }
  cluster_sync();  // the other block may still write here
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("[grouped_product] ") + what + ": " + cudaGetErrorString(error));
}

struct Dim {
  int64_t size, stride;  // the stride in elements; it is 1 in the first
  uint32_t box;
};
CUtensorMap make_map(const void* data, std::initializer_list<Dim> dims) {
  static const auto encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
#else
    check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
#endif
    if (!entry)
      throw std::runtime_error("[grouped_product] the driver has no cuTensorMapEncodeTiled; it must be 12.0 or newer.");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  }();
  CUtensorMap map;
  cuuint64_t sizes[5], strides[5];
  cuuint32_t boxes[5], steps[5], rank = 0;
  for (const Dim& dim : dims) {
    sizes[rank] = static_cast<cuuint64_t>(dim.size), boxes[rank] = dim.box, steps[rank] = 1;
    if (rank > 0) strides[rank - 1] = static_cast<cuuint64_t>(dim.stride) * 2;
    ++rank;
  }
  const CUresult done =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<void*>(data), sizes, strides, boxes, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, boxes[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (done != CUDA_SUCCESS) {
    std::string shape;
    for (const Dim& dim : dims) shape += (shape.empty() ? "" : " by ") + std::to_string(dim.size);
    throw std::runtime_error("[grouped_product] no tensor map of " + shape + ": error " +
                             std::to_string(static_cast<int>(done)));
  }
  return map;
}

template <Kind kKind>
void launch(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& out, const CUtensorMap& gated,
            const Tiles& tiles, cudaStream_t stream) {
  int device = 0, processors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaFuncSetAttribute(grouped_kernel<kKind>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
        "cudaFuncSetAttribute");
  grouped_kernel<kKind><<<processors / kCluster * kCluster, kThreads, kShared, stream>>>(a, b, out, gated, tiles);
}

}  // namespace

bool has_grouped_kernels(int device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
  return major == 9 && minor == 0;
}

void grouped_product(const ExpertEnds& e, const GroupedProduct& p, cudaStream_t stream) {
  const Tiles tiles{
      e.ends,  e.experts, static_cast<int>(p.width), 0, static_cast<int>(p.depth), static_cast<__nv_bfloat16*>(p.out),
      nullptr, false};
  const int64_t matrix = p.width * p.depth;
  const CUtensorMap rows = make_map(p.rows, {{p.depth, 1, kK}, {e.rows, p.depth, kPart}});
  const CUtensorMap out = make_map(p.out, {{p.width, 1, 64}, {e.rows, p.width, kUnit}});
  if (p.k_first) {
    launch<Kind::DeepRows>(make_map(p.weights, {{p.width, 1, 64}, {p.depth, p.width, kK}, {e.experts, matrix, 1}}),
                           rows, out, out, tiles, stream);
  } else {
    launch<Kind::Rows>(make_map(p.weights, {{p.depth, 1, kK}, {p.width, p.depth, 64}, {e.experts, matrix, 1}}), rows,
                       out, out, tiles, stream);
  }
}

void grouped_gated(const ExpertEnds& e, const GatedProduct& p, cudaStream_t stream) {
  const Tiles tiles{e.ends,
                    e.experts,
                    static_cast<int>(2 * p.width),
                    0,
                    static_cast<int>(p.depth),
                    static_cast<__nv_bfloat16*>(p.gate_up),
                    static_cast<__nv_bfloat16*>(p.out),
                    p.gelu};
  const int64_t matrix = p.width * p.depth;
  const CUtensorMap weights = make_map(
      p.weights,
      {{p.depth, 1, kK}, {8, p.depth, 8}, {2, matrix, 2}, {p.width / 8, 8 * p.depth, 4}, {e.experts, 2 * matrix, 1}});
  const CUtensorMap rows = make_map(p.rows, {{p.depth, 1, kK}, {e.rows, p.depth, kPart}});
  const CUtensorMap out = make_map(p.out, {{p.width, 1, 32}, {e.rows, p.width, kUnit}});
  const CUtensorMap gate_up =
      p.gate_up ? make_map(p.gate_up, {{p.width, 1, 32}, {2, p.width, 1}, {e.rows, 2 * p.width, kUnit}}) : out;
  launch<Kind::GatedRows>(weights, rows, gate_up, out, tiles, stream);
}

void grouped_outer(const ExpertEnds& e, const GroupedOuter& p, cudaStream_t stream) {
  const Tiles tiles{e.ends, e.experts, static_cast<int>(p.m), static_cast<int>(p.n), 0, nullptr, nullptr, false};
  const CUtensorMap out = make_map(p.out, {{p.n, 1, 64}, {p.m, p.n, 64}, {e.experts, p.m * p.n, 1}});
  launch<Kind::Outer>(make_map(p.a, {{p.m, 1, 64}, {e.rows, p.m, kK}}),
                      make_map(p.b, {{p.n, 1, 64}, {e.rows, p.n, kK}}), out, out, tiles, stream);
}

}  // namespace easydel::operations::cuda_kernels
