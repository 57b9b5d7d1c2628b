// Shared by the kernels of one token over its cache: which slots it sees, and adding up parts of its keys.
#pragma once

#include <initializer_list>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

namespace easydel::operations::cuda_kernels {

// cache_tiles.cu: for heads that fit its tiles, in half precision.
bool can_attend_in_tiles(Element type, const AttendToCache& args);
void plan_tiles(AttendToCache& args);
void attend_in_tiles(Element type, const AttendToCache& args, Stream stream);

namespace {

constexpr float kLowest = -1e30f;  // below every score, and finite

// Of a row: slots [begin, end) are visible, in `parts` of `chunk`.
struct VisibleSlots {
  int64_t slot, begin, chunk;
  int parts;
};
__device__ inline VisibleSlots visible_slots(const AttendToCache& a, int row, int step) {
  VisibleSlots s{};
  s.slot = __ldcg(reinterpret_cast<const long long*>(a.slot));
  s.begin = max(max(static_cast<int64_t>(0), s.slot + 1 - a.capacity), a.starts ? a.starts[row] : 0);
  if (a.window > 0) s.begin = max(s.begin, s.slot + 1 - a.window);
  // Divisions of 64 bits would take longer than all else here.
  const int keys = static_cast<int>(s.slot + 1 - s.begin);
  if (keys <= 0) return s;
  const int chunk = ((keys + a.splits - 1) / a.splits + step - 1) / step * step;
  s.chunk = chunk;
  s.parts = (keys + chunk - 1) / chunk;
  return s;
}

// A part of one query head in the scratch: maximum, sum, and head_size sums of weighted values.
__device__ inline float* part_of(const AttendToCache& a, int64_t query_head, int part) {
  return a.scratch + (query_head * a.splits + part) * (a.head_size + 2);
}

// True in the last block that comes here for this counter, which is zero again then.
__device__ inline bool is_last(int32_t* arrivals, int parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrivals, 1) == parts - 1;
    if (last) *arrivals = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// Adds up the parts of `outputs` elements, from the query head on.
template <class T>
__device__ inline void add_parts(const AttendToCache& a, int64_t query_head, int outputs, int parts, T* y) {
  for (int i = threadIdx.x; i < outputs; i += blockDim.x) {
    const int g = i / a.head_size, d = i % a.head_size;
    float largest = kLowest, sum = 0, value = 0;
    for (int p = 0; p < parts; ++p) largest = fmaxf(largest, __ldcg(part_of(a, query_head + g, p)));
#pragma unroll 4
    for (int p = 0; p < parts; ++p) {
      const float* part = part_of(a, query_head + g, p);
      const float weight = power_of_two(__ldcg(part) - largest);
      sum += __ldcg(part + 1) * weight;
      value += __ldcg(part + 2 + d) * weight;
    }
    y[i] = narrow<T>(value / sum);
  }
}

bool in_packs(const AttendToCache& a, int count) {
  for (const void* p : {a.q, a.k, a.v, static_cast<const void*>(a.k_cache), static_cast<const void*>(a.v_cache)}) {
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  }
  for (const int64_t n : {a.q_batch, a.q_head, a.k_batch, a.k_head, a.v_batch, a.v_head, int64_t{a.head_size}}) {
    if (n % count != 0) return false;
  }
  return true;
}

}  // namespace
}  // namespace easydel::operations::cuda_kernels
