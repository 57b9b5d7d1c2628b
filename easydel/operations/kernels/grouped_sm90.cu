// A block multiplies tiles of 128 by up to 256, one after the other: a thread brings 64 in depth at a time with TMA,
// two groups of 128 threads multiply them with wgmma. Two blocks make a cluster that shares the wider side of its
// tiles. What is ragged (an expert's rows) lies on the wider side, whose size may be any, or in depth.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "easydel/operations/kernels/grouped_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kM = 128, kN = 256, kK = 64, kPart = 64;  // a part: of the wider side, as it is loaded and stored
constexpr int kStages = 4, kConsumers = 2, kGroup = 128, kThreads = kGroup * (kConsumers + 1), kCluster = 2;
constexpr int kTileA = kM * kK * 2, kTileB = kN * kK * 2, kStage = kTileA + kTileB, kPartB = kPart * kK * 2;
constexpr int kBuffer = kPart * 64 * 2, kBuffers = 2;  // what a group stores at a time
constexpr int kAlign = 1024;                           // of tiles, for the swizzle
constexpr int kShared = kAlign + kStages * kStage + kConsumers * kBuffers * kBuffer;

struct Tiles {
  const int32_t* ends;
  int experts;
  int m, n;               // n: 0 where it is an expert's rows
  int depth;              // 0 where it is an expert's rows
  __nv_bfloat16* ragged;  // the result, where n is an expert's rows
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

// Boxes between global and shared memory. What lies outside of the matrix is read as zeros, and not written.
#define EASYDEL_LOAD(DIMS) "cp.async.bulk.tensor." DIMS ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"
__device__ __forceinline__ void load(void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y) {
  asm volatile(EASYDEL_LOAD("2d") " [%0], [%1, {%3, %4}], [%2];" ::"r"(address(to)), "l"(&map), "r"(address(barrier)),
               "r"(x), "r"(y)
               : "memory");
}
__device__ __forceinline__ void load_for_all(void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y) {
  asm volatile(EASYDEL_LOAD("2d") ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(address(to)), "l"(&map),
               "r"(address(barrier)), "r"(x), "r"(y), "h"(static_cast<uint16_t>((1 << kCluster) - 1))
               : "memory");
}
__device__ __forceinline__ void load(void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y, int z) {
  asm volatile(EASYDEL_LOAD("3d") " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(address(to)), "l"(&map),
               "r"(address(barrier)), "r"(x), "r"(y), "r"(z)
               : "memory");
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
#define EASYDEL_D32(i) EASYDEL_D16(i), EASYDEL_D16(i + 16)
#define EASYDEL_D64(i) EASYDEL_D32(i), EASYDEL_D32(i + 32)
#define EASYDEL_R0                                                                                                 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
  "%30,%31"
#define EASYDEL_R1                                                                                                    \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
  "%60,%61,%62,%63"
#define EASYDEL_R2                                                                                                    \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91," \
  "%92,%93,%94,%95"
#define EASYDEL_R3                                                                                                   \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118," \
  "%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define EASYDEL_WGMMA(N, R, A, B, KEEP, TRANS_A, TRANS_B)                                                            \
  "{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                                                     \
  ", 0;\n"                                                                                                           \
  "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" R "}, " A ", " B ", keep, 1, 1, " TRANS_A ", " TRANS_B \
  ";\n}"
#define EASYDEL_INPUTS "l"(a), "l"(b), "r"(keep), "n"(int{kDeepA}), "n"(int{kDeepB})

// d = a * b, plus d where `keep` is not 0: 64 by kWide, 16 in depth.
template <int kWide, bool kDeepA, bool kDeepB>
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, int keep) {
  if constexpr (kWide == 256) {
    asm volatile(
        EASYDEL_WGMMA("256", EASYDEL_R0 EASYDEL_R1 EASYDEL_R2 EASYDEL_R3, "%128", "%129", "%130", "%131", "%132")
        : EASYDEL_D64(0), EASYDEL_D64(64)
        : EASYDEL_INPUTS);
  } else if constexpr (kWide == 192) {
    asm volatile(EASYDEL_WGMMA("192", EASYDEL_R0 EASYDEL_R1 EASYDEL_R2, "%96", "%97", "%98", "%99", "%100")
                 : EASYDEL_D64(0), EASYDEL_D32(64)
                 : EASYDEL_INPUTS);
  } else if constexpr (kWide == 128) {
    asm volatile(EASYDEL_WGMMA("128", EASYDEL_R0 EASYDEL_R1, "%64", "%65", "%66", "%67", "%68")
                 : EASYDEL_D64(0)
                 : EASYDEL_INPUTS);
  } else {
    asm volatile(EASYDEL_WGMMA("64", EASYDEL_R0, "%32", "%33", "%34", "%35", "%36") : EASYDEL_D32(0) : EASYDEL_INPUTS);
  }
}

// Four 8 by 8 matrices of a warp to shared memory, rows or (kTurned) columns at the lanes' addresses.
template <bool kTurned>
__device__ __forceinline__ void store_matrices(uint32_t at, const float* f) {
  const auto both = [f](int i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(f[i], f[i + 1]);
    return *reinterpret_cast<const uint32_t*>(&pair);
  };
  if constexpr (kTurned) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(both(0)),
                 "r"(both(2)), "r"(both(4)), "r"(both(6))
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(both(0)),
                 "r"(both(2)), "r"(both(4)), "r"(both(6))
                 : "memory");
  }
}

// The tiles of one block, in order; all roles walk through the same ones. The blocks of a cluster have two neighbours
// on the narrow side and the same of the wide one.
struct Walk {
  const Tiles& tiles;
  int rank, pairs, step, place, expert = 0, begin = 0, end = 0;

  __device__ __forceinline__ Walk(const Tiles& tiles, int rank)
      : tiles(tiles),
        rank(rank),
        pairs((tiles.m + kM * kCluster - 1) / (kM * kCluster)),
        step(static_cast<int>(gridDim.x) / kCluster),
        place(static_cast<int>(blockIdx.x) / kCluster - step),
        end(tiles.ends[0]) {}
  __device__ __forceinline__ int width() const { return tiles.n ? tiles.n : end - begin; }
  __device__ __forceinline__ int depth() const { return tiles.depth ? tiles.depth : end - begin; }
  __device__ __forceinline__ int m() const { return (place % pairs * kCluster + rank) * kM; }
  __device__ __forceinline__ int n() const { return place / pairs * kN; }
  __device__ __forceinline__ bool next() {
    place += step;
    while (true) {
      const int count = (width() + kN - 1) / kN * pairs;
      if (place < count) return true;
      if (++expert == tiles.experts) return false;
      place -= count;
      begin = end;
      end = tiles.ends[expert];
    }
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

// a: the narrow side, b: the wide side. kOuter: both have rows in depth (the experts' rows), and out is [e][m, n]; else
// b's rows are the experts', a has rows in depth or not (kDeepA), and out is [n, m].
template <bool kDeepA, bool kOuter>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                   const __grid_constant__ CUtensorMap map_out, const __grid_constant__ Tiles tiles) {
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
  const int group = threadIdx.x / kGroup, thread = threadIdx.x % kGroup, rank = blockIdx.x % kCluster;
  Walk walk(tiles, rank);
  Stage stage;

  if (group == kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    while (thread == 0 && walk.next()) {
      const int begin = walk.begin, m = walk.m(), n = walk.n(), depth = walk.depth();
      const int parts = min(kN / kPart, (walk.width() - n + kPart - 1) / kPart);
      for (int k = 0; k < depth; k += kK, stage.advance()) {
        uint8_t *a = space + stage.index * kStage, *b = a + kTileA;
        uint64_t* ready = &full[stage.index];
        wait(&empty[stage.index], stage.parity ^ 1);
        arrive_for(ready, kTileA + parts * kPartB);
        if constexpr (kOuter) {
          for (int i = 0; i < 2; ++i) load(a + i * kTileA / 2, map_a, ready, m + i * 64, begin + k);
        } else if constexpr (kDeepA) {
          for (int i = 0; i < 2; ++i) load(a + i * kTileA / 2, map_a, ready, m + i * 64, k, walk.expert);
        } else {
          load(a, map_a, ready, k, m, walk.expert);
        }
        for (int i = rank; i < parts; i += kCluster) {
          load_for_all(b + i * kPartB, map_b, ready, kOuter ? n + i * kPart : k,
                       kOuter ? begin + k : begin + n + i * kPart);
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int warp = thread / 32, lane = thread % 32;
    uint8_t* buffers = space + kStages * kStage + group * kBuffers * kBuffer;
    float d[128];
    int turn = 0;  // of the buffers
    while (walk.next()) {
      const int begin = walk.begin, m = walk.m() + group * 64, n = walk.n(), depth = walk.depth();
      const int width = walk.width() - n;  // of this tile, or more
      if (kOuter && depth == 0) {
#pragma unroll
        for (float& f : d) f = 0;
      }
      const auto multiply_all = [&](auto wide) {
        int last = -1;
        for (int k = 0; k < depth; k += kK, stage.advance()) {
          wait(&full[stage.index], stage.parity);
          uint8_t *a = space + stage.index * kStage + group * kTileA / 2, *b = space + stage.index * kStage + kTileA;
          if (kOuter && k + kK > depth) {  // here the next expert's rows begin
            uint4* rest = reinterpret_cast<uint4*>(a + (depth - k) * 128);
            for (int i = thread; i < (kK - (depth - k)) * 8; i += kGroup) rest[i] = uint4{};
            before_async_reads();
            group_sync(group);
          }
          asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
          const uint64_t at_a = descriptor<kDeepA>(a), at_b = descriptor<kOuter>(b);
#pragma unroll
          for (int i = 0; i < kK / 16; ++i) {
            multiply<decltype(wide)::value, kDeepA, kOuter>(d, at_a + i * (kDeepA ? 128 : 2),
                                                            at_b + i * (kOuter ? 128 : 2), k | i);
          }
          asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (last >= 0 && thread < kCluster) arrive_at(&empty[last], thread);
          last = stage.index;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (last >= 0 && thread < kCluster) arrive_at(&empty[last], thread);
      };
      if (width > 192) {
        multiply_all(std::integral_constant<int, 256>());
      } else if (width > 128) {
        multiply_all(std::integral_constant<int, 192>());
      } else if (width > 64) {
        multiply_all(std::integral_constant<int, 128>());
      } else {
        multiply_all(std::integral_constant<int, 64>());
      }
#pragma unroll
      for (int part = 0; part < kN / kPart; ++part) {
        if (part * kPart >= width) break;
        uint8_t* buffer = buffers + turn * kBuffer;
        turn = (turn + 1) % kBuffers;
        if (thread == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kBuffers - 1) : "memory");
        group_sync(group);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
          const int matrix = lane / 8, row = lane % 8, columns = j + matrix / 2;  // which 8 of them
          const int line = kOuter ? warp * 16 + matrix % 2 * 8 + row : columns * 8 + row;
          const int chunk = kOuter ? columns : 2 * warp + matrix % 2;
          store_matrices<!kOuter>(address(buffer + line * 128 + (chunk ^ row) * 16), d + part * 32 + 4 * j);
        }
        before_async_reads();
        group_sync(group);
        const int at = n + part * kPart;
        if (kOuter || width >= (part + 1) * kPart) {
          if (thread == 0 && m < tiles.m) {
            if constexpr (kOuter) {
              store(map_out, buffer, at, m, walk.expert);
            } else {
              store(map_out, buffer, m, begin + at);
            }
          }
        } else {  // the rows behind are the next expert's
          for (int i = thread; i < (width - part * kPart) * 8; i += kGroup) {
            const int row = i / 8, chunk = i % 8, column = m + chunk * 8;
            if (column >= tiles.m) continue;
            *reinterpret_cast<uint4*>(tiles.ragged + static_cast<int64_t>(begin + at + row) * tiles.m + column) =
                *reinterpret_cast<const uint4*>(buffer + row * 128 + (chunk ^ (row % 8)) * 16);
          }
        }
        if (thread == 0) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    }
    if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  cluster_sync();  // the other block may still write here
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("[grouped_product] ") + what + ": " + cudaGetErrorString(error));
}

// Dense, the fastest dimension first; z is 0 for a matrix.
CUtensorMap make_map(const void* data, int64_t x, int64_t y, int64_t z, uint32_t box_x, uint32_t box_y) {
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
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(x), static_cast<cuuint64_t>(y), static_cast<cuuint64_t>(z)};
  const cuuint64_t strides[] = {sizes[0] * 2, sizes[0] * sizes[1] * 2};
  const cuuint32_t box[] = {box_x, box_y, 1}, steps[] = {1, 1, 1};
  const CUresult done = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, z ? 3 : 2, const_cast<void*>(data), sizes,
                               strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (done != CUDA_SUCCESS) {
    throw std::runtime_error("[grouped_product] no tensor map of " + std::to_string(x) + " by " + std::to_string(y) +
                             " by " + std::to_string(z) + ": error " + std::to_string(static_cast<int>(done)));
  }
  return map;
}

template <bool kDeepA, bool kOuter>
void launch(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& out, const Tiles& tiles,
            cudaStream_t stream) {
  int device = 0, processors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaFuncSetAttribute(grouped_kernel<kDeepA, kOuter>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
        "cudaFuncSetAttribute");
  grouped_kernel<kDeepA, kOuter><<<processors / kCluster * kCluster, kThreads, kShared, stream>>>(a, b, out, tiles);
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
      e.ends, e.experts, static_cast<int>(p.width), 0, static_cast<int>(p.depth), static_cast<__nv_bfloat16*>(p.out)};
  const CUtensorMap rows = make_map(p.rows, p.depth, e.rows, 0, kK, kPart);
  const CUtensorMap out = make_map(p.out, p.width, e.rows, 0, 64, kPart);
  if (p.k_first) {
    launch<true, false>(make_map(p.weights, p.width, p.depth, e.experts, 64, kK), rows, out, tiles, stream);
  } else {
    launch<false, false>(make_map(p.weights, p.depth, p.width, e.experts, kK, kM), rows, out, tiles, stream);
  }
}

void grouped_outer(const ExpertEnds& e, const GroupedOuter& p, cudaStream_t stream) {
  const Tiles tiles{e.ends, e.experts, static_cast<int>(p.m), static_cast<int>(p.n), 0, nullptr};
  launch<true, true>(make_map(p.a, p.m, e.rows, 0, 64, kK), make_map(p.b, p.n, e.rows, 0, 64, kK),
                     make_map(p.out, p.n, p.m, e.experts, 64, kPart), tiles, stream);
}

}  // namespace easydel::operations::cuda_kernels
