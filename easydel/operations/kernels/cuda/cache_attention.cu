// The new token of each row over its cache. The keys that it sees are split over thread blocks, those of a block over
// its warps; a warp has several keys at once, sixteen bytes of each in a lane, with all query heads that share them.
// Whichever block of a head is the last to finish adds up the parts.
#include "easydel/operations/kernels/cuda/cache_parts.cuh"
#include "easydel/operations/kernels/cuda/launch_after.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kMinKeys = 256;  // of a part: fewer take as long
constexpr int kMaxHead = 256, kMaxParts = 128;

// What a lane has of a head: units of kVec elements.
template <class T, int kVec, int kUnits>
struct HeadPart {
  using Unit = std::conditional_t<kVec == 1, T, uint4>;
  Unit units[kUnits];
  __device__ float get(int i) const { return wide(reinterpret_cast<const T*>(units)[i]); }
};

// kLanes lanes have a key, kKeys of them in a warp at once.
template <class T, int kShared, int kVec, int kLanes, int kUnits>
struct CacheAttention {
  static constexpr int kKeys = kWarp / kLanes, kAhead = kShared > 4 ? 2 : 4, kEach = kVec * kUnits;
  static constexpr int kRow = kLanes * kEach, kWarps = kShared * kRow > 1024 ? 4 : 8, kThreads = kWarps * kWarp;
  static constexpr int kStep = kWarps * kKeys * kAhead;
  using Part = HeadPart<T, kVec, kUnits>;

  const AttendToCache& a;
  const int lane, sub;  // within a key; which of the keys
  float q[kShared][kEach], out[kShared][kEach], most[kShared], sum[kShared];

  __device__ explicit CacheAttention(const AttendToCache& args)
      : a(args), lane(threadIdx.x % kLanes), sub(threadIdx.x % kWarp / kLanes) {}

  __device__ Part load(const T* from, bool is_there) const {
    Part part{};
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int d = (i * kLanes + lane) * kVec;
      if (is_there && d < a.head_size) part.units[i] = *reinterpret_cast<const typename Part::Unit*>(from + d);
    }
    return part;
  }
  __device__ void store(T* to, const Part& part) const {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int d = (i * kLanes + lane) * kVec;
      if (d < a.head_size) *reinterpret_cast<typename Part::Unit*>(to + d) = part.units[i];
    }
  }

  __device__ void load_queries(int row, int first_head, int heads) {
#pragma unroll
    for (int g = 0; g < kShared; ++g) {
      const T* from = static_cast<const T*>(a.q) + row * a.q_batch + (first_head + g) * a.q_head;
      const Part part = load(from, g < heads);
      most[g] = kLowest;
      sum[g] = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) q[g][i] = part.get(i), out[g][i] = 0;
    }
  }

  // Slots [from, to) of the row and key/value head; the new token's are stored by whoever has `stores`.
  __device__ void run(const VisibleSlots& seen, int64_t from, int64_t to, int row, int kv, bool stores) {
    const int64_t cache_at = (static_cast<int64_t>(row) * a.kv_heads + kv) * a.capacity * a.head_size;
    T* k_cache = static_cast<T*>(a.k_cache) + cache_at;
    T* v_cache = static_cast<T*>(a.v_cache) + cache_at;
    const T* k_new = static_cast<const T*>(a.k) + row * a.k_batch + kv * a.k_head;
    const T* v_new = static_cast<const T*>(a.v) + row * a.v_batch + kv * a.v_head;
    const int64_t place = seen.slot % a.capacity;
    const ToScore to_score(a.scale, a.softcap);
    for (int64_t start = from + threadIdx.x / kWarp * (kKeys * kAhead); start < to; start += kStep) {
      Part k[kAhead], v[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t slot = start + j * kKeys + sub, back = seen.slot - slot;
        const bool is_there = slot < to, is_new = back == 0;
        const int64_t at = (back > place ? place - back + a.capacity : place - back) * a.head_size;
        k[j] = load(is_new ? k_new : k_cache + at, is_there);
        v[j] = load(is_new ? v_new : v_cache + at, is_there);
        if (is_there && is_new && stores) store(k_cache + at, k[j]), store(v_cache + at, v[j]);
      }
      float weights[kShared][kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const bool is_there = start + j * kKeys + sub < to;
#pragma unroll
        for (int g = 0; g < kShared; ++g) {
          float score = 0;
#pragma unroll
          for (int i = 0; i < kEach; ++i) score += q[g][i] * k[j].get(i);
#pragma unroll
          for (int step = kLanes / 2; step > 0; step /= 2) score += __shfl_xor_sync(~0u, score, step);
          weights[g][j] = is_there ? to_score(score) : -INFINITY;
        }
      }
#pragma unroll
      for (int g = 0; g < kShared; ++g) {
        float now = most[g];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) now = fmaxf(now, weights[g][j]);
        const float keep = power_of_two(most[g] - now);
        most[g] = now;
        sum[g] *= keep;
#pragma unroll
        for (int i = 0; i < kEach; ++i) out[g][i] *= keep;
#pragma unroll
        for (int j = 0; j < kAhead; ++j) sum[g] += weights[g][j] = power_of_two(weights[g][j] - now);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const float value = v[j].get(i);
#pragma unroll
          for (int g = 0; g < kShared; ++g) out[g][i] += weights[g][j] * value;
        }
      }
    }
  }

  // The keys of a warp become one; values [kShared][kRow].
  __device__ void put(float* values, float* all_most, float* all_sums) {
#pragma unroll
    for (int g = 0; g < kShared; ++g) {
#pragma unroll
      for (int step = kLanes; step < kWarp; step *= 2) {
        const float other = __shfl_xor_sync(~0u, most[g], step), now = fmaxf(most[g], other);
        const float keep = power_of_two(most[g] - now), take = power_of_two(other - now);
        sum[g] = sum[g] * keep + __shfl_xor_sync(~0u, sum[g], step) * take;
#pragma unroll
        for (int i = 0; i < kEach; ++i) out[g][i] = out[g][i] * keep + __shfl_xor_sync(~0u, out[g][i], step) * take;
        most[g] = now;
      }
      if (sub != 0) continue;
      if (lane == 0) all_most[g] = most[g], all_sums[g] = sum[g];
#pragma unroll
      for (int i = 0; i < kEach; ++i) values[g * kRow + (i / kVec * kLanes + lane) * kVec + i % kVec] = out[g][i];
    }
  }
};

template <class T, int kShared, int kVec, int kLanes, int kUnits>
__global__ void __launch_bounds__(CacheAttention<T, kShared, kVec, kLanes, kUnits>::kThreads,
                                  kShared > 4 || kUnits > 1 ? 1 : 2)
    attend_kernel(const __grid_constant__ AttendToCache a) {
  using Block = CacheAttention<T, kShared, kVec, kLanes, kUnits>;
  __shared__ float values[Block::kWarps][kShared * Block::kRow];
  __shared__ float most[Block::kWarps][kShared], sums[Block::kWarps][kShared];
  next_may_start();
  wait_for_previous();
  const int chunks = (a.shared + kShared - 1) / kShared;
  const int split = blockIdx.x, row = blockIdx.z, kv = blockIdx.y / chunks, skipped = blockIdx.y % chunks * kShared;
  const int first_head = kv * a.shared + skipped, heads = min(kShared, a.shared - skipped);
  const int64_t query_head = static_cast<int64_t>(row) * a.kv_heads * a.shared + first_head;
  const int outputs = heads * a.head_size;
  T* y = static_cast<T*>(a.out) + query_head * a.head_size;
  const VisibleSlots seen = visible_slots(a, row, Block::kStep);
  if (split >= seen.parts) {
    if (split == 0)
      for (int i = threadIdx.x; i < outputs; i += Block::kThreads) y[i] = narrow<T>(0.0f);
    return;
  }
  Block block(a);
  block.load_queries(row, first_head, heads);
  const int64_t from = seen.begin + split * seen.chunk;
  block.run(seen, from, min(seen.slot + 1, from + seen.chunk), row, kv, skipped == 0);
  const int warp = threadIdx.x / kWarp;
  block.put(values[warp], most[warp], sums[warp]);
  __syncthreads();
  for (int i = threadIdx.x; i < outputs; i += Block::kThreads) {
    const int g = i / a.head_size, d = i % a.head_size;
    float largest = kLowest, sum = 0, value = 0;
#pragma unroll
    for (int w = 0; w < Block::kWarps; ++w) largest = fmaxf(largest, most[w][g]);
#pragma unroll
    for (int w = 0; w < Block::kWarps; ++w) {
      const float weight = power_of_two(most[w][g] - largest);
      sum += sums[w][g] * weight;
      value += values[w][g * Block::kRow + d] * weight;
    }
    if (seen.parts == 1) {
      y[i] = narrow<T>(value / sum);
      continue;
    }
    float* part = part_of(a, query_head + g, split);
    part[2 + d] = value;
    if (d == 0) part[0] = largest, part[1] = sum;
  }
  if (seen.parts == 1 || !is_last(a.arrivals + query_head, seen.parts)) return;
  add_parts<T>(a, query_head, outputs, seen.parts, y);
}

template <class T, int kShared, int kVec, int kLanes, int kUnits>
void attend(const AttendToCache& a, Stream stream) {
  const dim3 grid(a.splits, a.kv_heads * ((a.shared + kShared - 1) / kShared), a.batch);
  launch_after(attend_kernel<T, kShared, kVec, kLanes, kUnits>, grid,
               CacheAttention<T, kShared, kVec, kLanes, kUnits>::kThreads, 0, stream, a);
}

template <class T, int kShared>
void attend_shared(const AttendToCache& a, bool in_packs, Stream stream) {
  constexpr int kVec = Pack<T>::kCount;
  if (!in_packs) return attend<T, kShared, 1, 32, kMaxHead / 32>(a, stream);
  if (a.head_size <= 8 * kVec) return attend<T, kShared, kVec, 8, 1>(a, stream);
  if (a.head_size <= 16 * kVec) return attend<T, kShared, kVec, 16, 1>(a, stream);
  if (a.head_size <= 32 * kVec) return attend<T, kShared, kVec, 32, 1>(a, stream);
  if constexpr (32 * kVec < kMaxHead) attend<T, kShared, kVec, 32, 2>(a, stream);
}

}  // namespace

bool can_attend_to_cache(int64_t head_size) { return head_size <= kMaxHead; }

void plan_attend_to_cache(Element type, AttendToCache& a) {
  if (can_attend_in_tiles(type, a)) return plan_tiles(a);
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int64_t keys = a.window > 0 ? std::min(a.keys, a.window) : a.keys;
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(a.batch) * a.kv_heads);
  const int64_t most = std::clamp<int64_t>((keys + kMinKeys - 1) / kMinKeys, 1, kMaxParts);
  a.splits = static_cast<int32_t>(std::clamp<int64_t>((2LL * processors + rows - 1) / rows, 1, most));
  // Fewer heads to a block leave no processor idle; their keys are read again, from a cache.
  a.together = a.shared <= 2 ? a.shared : a.shared <= 4 ? 4 : 8;
  while (a.together > 1 && rows * a.splits * ((a.shared + a.together - 1) / a.together) < processors) a.together /= 2;
}

int64_t scratch_floats(const AttendToCache& a) {
  return a.splits == 1 ? 0 : static_cast<int64_t>(a.batch) * a.kv_heads * a.shared * a.splits * (a.head_size + 2);
}

void attend_to_cache(Element type, const AttendToCache& args, Stream stream) {
  if (args.batch == 0 || args.kv_heads == 0 || args.shared == 0) return;
  if (args.warps > 0) return attend_in_tiles(type, args, stream);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const bool packed = in_packs(args, Pack<T>::kCount);
    if (args.together == 1) return attend_shared<T, 1>(args, packed, stream);
    if (args.together == 2) return attend_shared<T, 2>(args, packed, stream);
    if (args.together == 4) return attend_shared<T, 4>(args, packed, stream);
    attend_shared<T, 8>(args, packed, stream);
  });
}

}  // namespace easydel::operations::cuda_kernels
