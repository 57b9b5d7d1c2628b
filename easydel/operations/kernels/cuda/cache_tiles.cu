// The new token of each row over its cache in half precision, on tensor cores: a warp has sixteen keys at once, and up
// to eight query heads that share them are the rows of a tile. Keys and values go from memory to the operands in
// registers, sixteen bytes at a time: in which order a product adds up dimensions or keys is free.
#include "easydel/operations/kernels/cuda/cache_parts.cuh"
#include "easydel/operations/kernels/cuda/launch_after.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kTileKeys = 16, kTileHeads = 8;

// Warps that a processor has registers for; a thread block has all of them, a half or a quarter.
__host__ __device__ constexpr int warps_of_processor(int head) { return head > 64 ? 12 : 16; }

// Past the first cache: what is read once.
__device__ inline uint4 load_once(const void* from) {
  uint4 x;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

template <class T>
__device__ inline float2 unpack_pair(uint32_t bits) {
  if constexpr (std::is_same_v<T, __half>) {
    __half2 pair;
    memcpy(&pair, &bits, sizeof(bits));
    return __half22float2(pair);
  } else {
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
  }
}

// Heads of up to kHead elements; the rest counts as zeros. Lane = 4 * g + t has of the scores query head g and keys
// 2 t, 2 t + 1, 2 t + 8 and 2 t + 9; and of those keys, elements [64 c + 8 g, + 8) of the values.
template <class T, int kHead>
struct TileAttention {
  static constexpr int kKeyChunks = kHead / 32, kValueChunks = kHead / 64;

  const AttendToCache& a;
  const int g, t;
  const T *k_cache, *v_cache, *k_new, *v_new;  // of the row and key/value head
  int place, capacity;                         // of the new token in the ring, which has as many slots
  uint4 q[kKeyChunks], k[2][kKeyChunks], v[4][kValueChunks];
  // Rows below eight: the sums with weights in T; the others: with what weights lost when they were rounded to T.
  float out[kValueChunks * 8][4];
  float most = kLowest, sum = 0;

  __device__ TileAttention(const AttendToCache& args, int row, int kv)
      : a(args), g(threadIdx.x % kWarp / 4), t(threadIdx.x % 4), capacity(static_cast<int>(args.capacity)) {
    const int64_t at = (static_cast<int64_t>(row) * a.kv_heads + kv) * a.capacity * a.head_size;
    k_cache = static_cast<const T*>(a.k_cache) + at, v_cache = static_cast<const T*>(a.v_cache) + at;
    k_new = static_cast<const T*>(a.k) + row * a.k_batch + kv * a.k_head;
    v_new = static_cast<const T*>(a.v) + row * a.v_batch + kv * a.v_head;
    // So that they are not computed again for every tile.
    asm volatile("" : "+l"(k_cache), "+l"(v_cache), "+l"(k_new), "+l"(v_new));
#pragma unroll
    for (int i = 0; i < kValueChunks * 8; ++i) out[i][0] = out[i][1] = out[i][2] = out[i][3] = 0;
  }

  __device__ void load_queries(int row, int first_head, int heads) {
    const T* from = static_cast<const T*>(a.q) + row * a.q_batch + (first_head + g) * a.q_head;
#pragma unroll
    for (int c = 0; c < kKeyChunks; ++c) {
      const int d = 32 * c + 8 * t;
      q[c] = g < heads && d < a.head_size ? *reinterpret_cast<const uint4*>(from + d) : uint4{};
    }
  }

  // Of the slot that is `back` before the new token's: what is stored, or the new token's own.
  __device__ const T* at_slot(const T* cache, const T* own, int back) const {
    const int at = place - back;
    const T* stored = cache + static_cast<int64_t>(at < 0 ? at + capacity : at) * a.head_size;
    return back == 0 ? own : stored;
  }

  // Keys of the tile whose first is `back` before the new token and which has `count`.
  __device__ void load_keys(int back, int count) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int key = 8 * n + g;
      const T* from = at_slot(k_cache, k_new, back - key);
#pragma unroll
      for (int c = 0; c < kKeyChunks; ++c) {
        const int d = 32 * c + 8 * t;
        k[n][c] = key < count && d < a.head_size ? load_once(from + d) : uint4{};
      }
    }
  }
  __device__ void load_values(int back, int count) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = 2 * t + j % 2 + j / 2 * 8;
      const T* from = at_slot(v_cache, v_new, back - key);
#pragma unroll
      for (int c = 0; c < kValueChunks; ++c) {
        const int d = 64 * c + 8 * g;
        v[j][c] = key < count && d < a.head_size ? load_once(from + d) : uint4{};
      }
    }
  }

  // Scores of this lane, [8 n + 2 t + i].
  __device__ void find_scores(const ToScore& to_score, int count, float (&scores)[2][2]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float d[4] = {};
#pragma unroll
      for (int c = 0; c < kKeyChunks; ++c) {
        multiply_tile<T>(d, q[c].x, 0, q[c].y, 0, k[n][c].x, k[n][c].y);
        multiply_tile<T>(d, q[c].z, 0, q[c].w, 0, k[n][c].z, k[n][c].w);
      }
      scores[n][0] = d[0] * to_score.scale, scores[n][1] = d[1] * to_score.scale;
    }
    if (to_score.cap > 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[i / 2][i % 2] = to_score.cap * tanhf(scores[i / 2][i % 2]);
    }
    if (count < kTileKeys) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (8 * (i / 2) + 2 * t + i % 2 >= count) scores[i / 2][i % 2] = -INFINITY;
      }
    }
  }

  // Scores become weights relative to the largest so far.
  __device__ void weigh(float (&scores)[2][2]) {
    float now = fmaxf(fmaxf(scores[0][0], scores[0][1]), fmaxf(scores[1][0], scores[1][1]));
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
    now = fmaxf(most, fmaxf(now, __shfl_xor_sync(~0u, now, 2)));
    if (__any_sync(~0u, now > most)) {
      const float keep = power_of_two(most - now);
      sum *= keep;
#pragma unroll
      for (int i = 0; i < kValueChunks * 8; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[i][e] *= keep;
      }
      most = now;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) sum += scores[n][i] = power_of_two(scores[n][i] - now);
    }
  }

  __device__ void add_values(const float (&weights)[2][2]) {
    uint32_t high[2], low[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float x = weights[n][0], y = weights[n][1];
      high[n] = pack_pair<T>(x, y);
      const float2 rounded = unpack_pair<T>(high[n]);
      low[n] = pack_pair<T>(x - rounded.x, y - rounded.y);
    }
#pragma unroll
    for (int c = 0; c < kValueChunks; ++c) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int order = i % 2 == 0 ? 0x5410 : 0x7632;
        const uint32_t b0 = __byte_perm(word(v[0][c], i / 2), word(v[1][c], i / 2), order);
        const uint32_t b1 = __byte_perm(word(v[2][c], i / 2), word(v[3][c], i / 2), order);
        multiply_tile<T>(out[8 * c + i], high[0], low[0], high[1], low[1], b0, b1);
      }
    }
  }

  // Slots [from, to), of which this warp has every `warps`-th tile.
  __device__ void run(const VisibleSlots& seen, int64_t from, int64_t to, int warp, int warps) {
    const ToScore to_score(a.scale, a.softcap);
    const int keys = static_cast<int>(to - from), back = static_cast<int>(seen.slot - from), step = warps * kTileKeys;
    int at = warp * kTileKeys;
    load_keys(back - at, keys - at), load_values(back - at, keys - at);
    for (; at < keys; at += step) {
      const int next = at + step;
      float scores[2][2];
      find_scores(to_score, keys - at, scores);
      load_keys(back - next, keys - next);
      weigh(scores);
      add_values(scores);
      load_values(back - next, keys - next);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
  }

  // What the warp has of `heads` heads, [kTileHeads][kHead].
  __device__ void put(int heads, float* values, float* all_most, float* all_sums) const {
    if (g >= heads) return;
    if (t == 0) all_most[g] = most, all_sums[g] = sum;
#pragma unroll
    for (int c = 0; c < kValueChunks; ++c) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float* to = values + g * kHead + 64 * c + 8 * (2 * t + e);
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const auto at = [&](int j) { return out[8 * c + i + j][e] + out[8 * c + i + j][2 + e]; };
          *reinterpret_cast<float4*>(to + i) = {at(0), at(1), at(2), at(3)};
        }
      }
    }
  }
};

// Asks for the keys and values of a warp's first tile. What it goes by may be old, and is only a guess then.
template <class T>
__device__ inline void prefetch_tile(const AttendToCache& a, int row, int kv, int split, int warp) {
  const long long slot = __ldcg(reinterpret_cast<const long long*>(a.slot));
  const auto capacity = static_cast<long long>(a.capacity);
  if (slot <= 0 || slot >= capacity || a.starts || a.window > 0) return;
  const int keys = static_cast<int>(slot) + 1, step = static_cast<int>(blockDim.x) / kWarp * kTileKeys;
  const int chunk = ((keys + a.splits - 1) / a.splits + step - 1) / step * step;
  const int first = split * chunk + warp * kTileKeys, count = min(kTileKeys, keys - first);
  if (count <= 0 || warp * kTileKeys >= chunk) return;
  const int64_t at = ((static_cast<int64_t>(row) * a.kv_heads + kv) * a.capacity + first) * a.head_size;
  const int64_t bytes = static_cast<int64_t>(count) * a.head_size * static_cast<int64_t>(sizeof(T));
  prefetch(static_cast<const T*>(a.k_cache) + at, bytes), prefetch(static_cast<const T*>(a.v_cache) + at, bytes);
}

template <class T, int kHead>
__global__ void __launch_bounds__(warps_of_processor(kHead) * kWarp, 1)
    attend_tiles_kernel(const __grid_constant__ AttendToCache a) {
  constexpr int kMaxWarps = warps_of_processor(kHead);
  extern __shared__ float4 shared_values[];  // [warps][heads][kHead]
  __shared__ float most[kMaxWarps][kTileHeads], sums[kMaxWarps][kTileHeads];
  const int warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int chunks = (a.shared + kTileHeads - 1) / kTileHeads;
  const int split = blockIdx.x, row = blockIdx.z, kv = blockIdx.y / chunks;
  const int skipped = blockIdx.y % chunks * kTileHeads;
  next_may_start();
  prefetch_tile<T>(a, row, kv, split, warp);
  wait_for_previous();
  const int first_head = kv * a.shared + skipped, heads = min(kTileHeads, a.shared - skipped);
  const int64_t query_head = static_cast<int64_t>(row) * a.kv_heads * a.shared + first_head;
  const int outputs = heads * a.head_size;
  T* y = static_cast<T*>(a.out) + query_head * a.head_size;
  const VisibleSlots seen = visible_slots(a, row, warps * kTileKeys);
  if (split >= seen.parts) {
    if (split == 0)
      for (int i = threadIdx.x; i < outputs; i += blockDim.x) y[i] = narrow<T>(0.0f);
    return;
  }
  TileAttention<T, kHead> block(a, row, kv);
  block.place = static_cast<int>(seen.slot % a.capacity);
  block.load_queries(row, first_head, heads);
  const int64_t from = seen.begin + split * seen.chunk, to = min(seen.slot + 1, from + seen.chunk);
  block.run(seen, from, to, warp, warps);
  if (skipped == 0 && to == seen.slot + 1) {  // nobody reads the new token's slot
    const int packs = a.head_size / Pack<T>::kCount;
    for (int j = threadIdx.x; j < 2 * packs; j += blockDim.x) {
      const bool is_key = j < packs;
      const int within = is_key ? j : j - packs;
      auto* to_cache = reinterpret_cast<uint4*>(
          (is_key ? static_cast<T*>(a.k_cache) : static_cast<T*>(a.v_cache)) +
          ((static_cast<int64_t>(row) * a.kv_heads + kv) * a.capacity + block.place) * a.head_size);
      to_cache[within] = reinterpret_cast<const uint4*>(is_key ? block.k_new : block.v_new)[within];
    }
  }
  auto* values = reinterpret_cast<float*>(shared_values);
  const int used = min(warps, static_cast<int>(to - from + kTileKeys - 1) / kTileKeys);  // others have no keys
  block.put(heads, values + warp * heads * kHead, most[warp], sums[warp]);
  __syncthreads();
  for (int i = threadIdx.x; i < outputs; i += blockDim.x) {
    const int g = i / a.head_size, d = i % a.head_size;
    float largest = kLowest, sum = 0, value = 0;
    for (int w = 0; w < used; ++w) largest = fmaxf(largest, most[w][g]);
#pragma unroll 4
    for (int w = 0; w < used; ++w) {
      const float weight = power_of_two(most[w][g] - largest);
      sum += sums[w][g] * weight;
      value += values[(w * heads + g) * kHead + d] * weight;
    }
    if (seen.parts == 1) {
      y[i] = narrow<T>(value / sum);
      continue;
    }
    float* part = part_of(a, query_head + g, split);
    part[2 + d] = value;
    if (d == 0) part[0] = largest, part[1] = sum;
  }
  if (seen.parts > 1 && is_last(a.arrivals + query_head, seen.parts))
    add_parts<T>(a, query_head, outputs, seen.parts, y);
}

template <class T, int kHead>
void attend(const AttendToCache& a, Stream stream) {
  const auto kernel = attend_tiles_kernel<T, kHead>;
  const int chunks = (a.shared + kTileHeads - 1) / kTileHeads;
  const int bytes = a.warps * std::min(a.shared, kTileHeads) * kHead * static_cast<int>(sizeof(float));
  if (bytes > 40 * 1024) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  launch_after(kernel, dim3(a.splits, a.kv_heads * chunks, a.batch), a.warps * kWarp, static_cast<std::size_t>(bytes),
               stream, a);
}

}  // namespace

bool can_attend_in_tiles(Element type, const AttendToCache& a) {
  return type != Element::Float32 && a.head_size <= 128 && in_packs(a, 8);
}

// How many warps a block has, and into how many parts the keys are split: what takes the fewest tiles one after
// another. Beginning and ending a block takes as long as two tiles, adding up parts as long as three.
void plan_tiles(AttendToCache& a) {
  constexpr int64_t kMaxParts = 64, kAround = 2, kJoin = 3;
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int64_t keys = std::max<int64_t>(1, a.window > 0 ? std::min(a.keys, a.window) : a.keys);
  const int64_t rows = static_cast<int64_t>(a.batch) * a.kv_heads * ((a.shared + kTileHeads - 1) / kTileHeads);
  const int all = warps_of_processor(a.head_size);
  int64_t best = 0;
  for (int parts_of = 1; parts_of <= 4; parts_of *= 2) {
    const int64_t warps = all / parts_of, step = warps * kTileKeys, tiles = (keys + step - 1) / step;
    for (int64_t splits = 1; splits <= std::min(tiles, kMaxParts); ++splits) {
      const int64_t rounds = (rows * splits + processors * parts_of - 1) / (processors * parts_of);
      const int64_t cost = rounds * ((tiles + splits - 1) / splits + kAround) + (splits > 1 ? kJoin : 0);
      if (best != 0 && cost >= best) continue;
      best = cost;
      a.splits = static_cast<int32_t>(splits), a.warps = static_cast<int32_t>(warps);
    }
  }
  a.together = kTileHeads;
}

void attend_in_tiles(Element type, const AttendToCache& a, Stream stream) {
  const auto run = [&](auto t) {
    using T = decltype(t);
    a.head_size <= 64 ? attend<T, 64>(a, stream) : attend<T, 128>(a, stream);
  };
  type == Element::Float16 ? run(__half{}) : run(__nv_bfloat16{});
}

}  // namespace easydel::operations::cuda_kernels
