// Copies between rows and pages, and the largest value of each row.
#include <initializer_list>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/paged/paged_kernels.h"
#include "easydel/operations/kernels/cuda/paged/paged_row_types.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kCopyThreads = 256;

template <class Unit>
__device__ inline void store_rows(const PagedStore& a, const PagedStore::Rows& rows, int64_t token, int64_t slot) {
  const int units = rows.bytes / static_cast<int>(sizeof(Unit));
  const char* from = static_cast<const char*>(rows.x) + token * rows.token;
  char* to = static_cast<char*>(rows.pages) + (slot >> a.page_shift) * rows.strides.page +
             (slot & ((1 << a.page_shift) - 1)) * rows.strides.row;
  for (int i = threadIdx.x; i < a.kv_heads * units; i += blockDim.x) {
    const int head = i / units, unit = i % units;
    reinterpret_cast<Unit*>(to + head * rows.strides.head)[unit] =
        reinterpret_cast<const Unit*>(from + head * rows.head)[unit];
  }
}

// A block for a token.
template <class Unit>
__global__ void paged_store_kernel(const PagedStore a) {
  const int64_t slot = a.slots[blockIdx.x];
  if (slot < 0) return;
  store_rows<Unit>(a, a.k, blockIdx.x, slot);
  if (a.v.bytes > 0) store_rows<Unit>(a, a.v, blockIdx.x, slot);
}

// A block for a token, a warp for a row. As encode_rows of quantized/coded_rows.h.
template <class T>
__global__ void paged_store_codes_kernel(const PagedStore a) {
  const int64_t token = blockIdx.x, slot = a.slots[token];
  if (slot < 0) return;
  const int lane = threadIdx.x % kWarp, rows = a.kv_heads * (a.v.bytes > 0 ? 2 : 1);
  for (int i = threadIdx.x / kWarp; i < rows; i += blockDim.x / kWarp) {
    const PagedStore::Rows& own = i < a.kv_heads ? a.k : a.v;
    const int head = i % a.kv_heads, features = own.bytes;
    const auto* from =
        reinterpret_cast<const T*>(static_cast<const char*>(own.x) + token * own.token + head * own.head);
    auto* to = static_cast<int8_t*>(own.pages) + (slot >> a.page_shift) * own.strides.page + head * own.strides.head +
               (slot & ((1 << a.page_shift) - 1)) * own.strides.row;
    float most = 0;
    bool has_nan = false;
    for (int d = lane; d < features; d += kWarp) {
      const float x = wide(from[d]);
      most = fmaxf(most, fabsf(x));
      has_nan |= x != x;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    const float scale = __any_sync(~0u, has_nan) ? NAN : __fdiv_rn(most, 127.0f), unit = fmaxf(scale, 1e-38f);
    for (int d = lane; d < features; d += kWarp)
      to[d] = static_cast<int8_t>(min(max(__float2int_rn(__fdiv_rn(wide(from[d]), unit)), -127), 127));
    if (lane == 0) *reinterpret_cast<float*>(to + features) = scale;
  }
}

// The sequence of a token of all, and its slot in that.
struct GatheredToken {
  int sequence, slot;
};
__device__ inline GatheredToken gathered_token(const GatherPages& a, int token) {
  int low = 0, high = a.sequences - 1;  // the last sequence that begins at or before this token
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (a.cu_lengths[middle] <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return {low, token - a.cu_lengths[low]};
}
__device__ inline const char* gathered_rows(const GatherPages& a, int token) {
  const GatheredToken at = gathered_token(a, token);
  const int64_t page = a.tables[at.sequence * a.table_row + (at.slot >> a.page_shift)];
  return static_cast<const char*>(a.pages) + page * a.strides.page +
         (at.slot & ((1 << a.page_shift) - 1)) * a.strides.row;
}

template <class Unit>
__global__ void gather_pages_kernel(const GatherPages a) {
  const int token = blockIdx.x;
  if (token >= a.cu_lengths[a.sequences]) return;
  const int units = a.bytes / static_cast<int>(sizeof(Unit));
  const char* from = gathered_rows(a, token);
  Unit* to = static_cast<Unit*>(a.y) + static_cast<int64_t>(token) * a.kv_heads * units;
  for (int i = threadIdx.x; i < a.kv_heads * units; i += blockDim.x)
    to[i] = reinterpret_cast<const Unit*>(from + i / units * a.strides.head)[i % units];
}

template <class T, class Rows>
__global__ void gather_coded_kernel(const GatherPages a) {
  const int token = blockIdx.x, features = a.bytes;
  if (token >= a.cu_lengths[a.sequences]) return;
  const char* from = gathered_rows(a, token);
  T* to = static_cast<T*>(a.y) + static_cast<int64_t>(token) * a.kv_heads * features;
  for (int i = threadIdx.x; i < a.kv_heads * features; i += blockDim.x) {
    const auto* row = reinterpret_cast<const typename Rows::Element*>(from + i / features * a.strides.head);
    to[i] = narrow<T>(Rows::at(row, i % features) * Rows::scale(row, features));
  }
}

// f(unit): the largest kind of word that all of these addresses and sizes are multiples of.
template <class F>
void with_unit(std::initializer_list<const void*> pointers, std::initializer_list<int64_t> sizes, const F& f) {
  std::uintptr_t all = 0;
  for (const void* p : pointers) all |= reinterpret_cast<std::uintptr_t>(p);
  for (const int64_t n : sizes) all |= static_cast<std::uintptr_t>(n);
  if (all % 16 == 0) return f(uint4{});
  if (all % 4 == 0) return f(uint32_t{});
  if (all % 2 == 0) return f(uint16_t{});
  return f(uint8_t{});
}

int copy_threads(int64_t units) {
  return static_cast<int>(std::clamp<int64_t>((units + kWarp - 1) / kWarp * kWarp, kWarp, kCopyThreads));
}

constexpr int kMaxThreads = 256, kMaxParts = 32, kMaxBlocks = 1024;

int argmax_parts(int64_t rows) {
  return static_cast<int>(std::clamp<int64_t>(kMaxBlocks / std::max<int64_t>(rows, 1), 1, kMaxParts));
}

// A value and its index as one integer: larger for a larger value (NaN is the largest), then for a smaller index.
__device__ inline uint64_t ranked(float value, uint32_t index) {
  const uint32_t bits = __float_as_uint(value);
  const uint32_t order = value != value ? ~0u : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(order) << 32 | (~index);
}

__device__ inline uint64_t warp_most(uint64_t x) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const auto other = static_cast<uint64_t>(__shfl_xor_sync(~0u, static_cast<unsigned long long>(x), step));
    x = other > x ? other : x;
  }
  return x;
}

__device__ inline int64_t index_of(uint64_t x) { return static_cast<int64_t>(~static_cast<uint32_t>(x)); }

__device__ inline void finish_row(const ArgMax& a, int64_t row, uint64_t most) {
  const int64_t index = index_of(most);
  if (!a.running) {
    a.ids[row] = index;
    return;
  }
  const bool runs = a.running[row];
  const auto value = static_cast<uint32_t>(most >> 32);
  a.ids[row] = a.column[row * a.column_row] = runs ? index : a.pad;
  if (!runs) return;
  ++a.lengths[row];
  if (value <= static_cast<uint32_t>(ranked(-INFINITY, 0) >> 32) || value == ~0u) a.invalid[row] = true;
}

// A block for a part of a row.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kMaxThreads) argmax_kernel(const ArgMax a) {
  constexpr int kCount = kPacked ? Pack<T>::kCount : 1;
  __shared__ uint64_t all[kMaxThreads / kWarp];
  const int64_t packs = a.width / kCount, chunk = (packs + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * chunk;
  const int64_t end = min(packs, begin + chunk);
  const T* row = static_cast<const T*>(a.x) + blockIdx.y * a.x_row;
  float best = -INFINITY;
  uint32_t index = ~0u;
  const auto take = [&](float x, uint32_t i) {
    if (index == ~0u || x > best || (x != x && best == best)) best = x, index = i;
  };
#pragma unroll 4
  for (int64_t i = begin + threadIdx.x; i < end; i += kMaxThreads) {
    if constexpr (kPacked) {
      const Pack<T> pack = Pack<T>::at(row, i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) take(pack.get(j), static_cast<uint32_t>(i * kCount + j));
    } else {
      take(wide(row[i]), static_cast<uint32_t>(i));
    }
  }
  if (blockIdx.x + 1 == gridDim.x) {  // what is no whole pack
    for (int64_t i = packs * kCount + threadIdx.x; i < a.width; i += kMaxThreads)
      take(wide(row[i]), static_cast<uint32_t>(i));
  }
  uint64_t most = warp_most(index == ~0u ? 0 : ranked(best, index));
  if (threadIdx.x % kWarp == 0) all[threadIdx.x / kWarp] = most;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  most = warp_most(threadIdx.x < kMaxThreads / kWarp ? all[threadIdx.x] : 0);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    finish_row(a, blockIdx.y, most);
  } else {
    a.scratch[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = most;
  }
}

__global__ void argmax_merge_kernel(const ArgMax a, int parts) {
  const int lane = threadIdx.x;
  const uint64_t most = warp_most(lane < parts ? a.scratch[static_cast<int64_t>(blockIdx.x) * parts + lane] : 0);
  if (lane == 0) finish_row(a, blockIdx.x, most);
}

}  // namespace

void paged_store(const PagedStore& a, Stream stream) {
  if (a.tokens == 0) return;
  const PagedStore::Rows &k = a.k, &v = a.v;
  with_unit({k.x, k.pages, v.x, v.pages},
            {k.token, k.head, k.strides.page, k.strides.head, k.strides.row, k.bytes, v.token, v.head, v.strides.page,
             v.strides.head, v.strides.row, v.bytes},
            [&](auto unit) {
              using Unit = decltype(unit);
              const int threads = copy_threads(a.kv_heads * (k.bytes / static_cast<int64_t>(sizeof(Unit))));
              paged_store_kernel<Unit><<<static_cast<unsigned>(a.tokens), threads, 0, stream>>>(a);
            });
}

void gather_pages(const GatherPages& a, Stream stream) {
  if (a.total == 0 || a.sequences == 0) return;
  with_unit({a.pages, a.y}, {a.strides.page, a.strides.head, a.strides.row, a.bytes}, [&](auto unit) {
    using Unit = decltype(unit);
    const int threads = copy_threads(a.kv_heads * (a.bytes / static_cast<int64_t>(sizeof(Unit))));
    gather_pages_kernel<Unit><<<static_cast<unsigned>(a.total), threads, 0, stream>>>(a);
  });
}

void paged_store_codes(Element type, const PagedStore& a, Stream stream) {
  if (a.tokens == 0) return;
  with_type(type, [&](auto t) {
    const int threads = copy_threads(a.kv_heads * (a.v.bytes > 0 ? 2 : 1) * kWarp);
    paged_store_codes_kernel<decltype(t)><<<static_cast<unsigned>(a.tokens), threads, 0, stream>>>(a);
  });
}

void gather_coded_pages(Element type, PageRows rows, const GatherPages& a, Stream stream) {
  if (a.total == 0 || a.sequences == 0) return;
  const int threads = copy_threads(a.kv_heads * a.bytes);
  const auto blocks = static_cast<unsigned>(a.total);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    switch (rows) {
      case PageRows::Plain: return;
      case PageRows::Codes: gather_coded_kernel<T, CodeRows><<<blocks, threads, 0, stream>>>(a); return;
      case PageRows::Float8E4M3:
        gather_coded_kernel<T, Float8Rows<__NV_E4M3>><<<blocks, threads, 0, stream>>>(a);
        return;
      case PageRows::Float8E5M2:
        gather_coded_kernel<T, Float8Rows<__NV_E5M2>><<<blocks, threads, 0, stream>>>(a);
        return;
    }
  });
}

int64_t argmax_scratch(int64_t rows) { return argmax_parts(rows) == 1 ? 0 : rows * argmax_parts(rows); }

void argmax(Element type, const ArgMax& a, Stream stream) {
  if (a.rows == 0) return;
  const int parts = argmax_parts(a.rows);
  const dim3 grid(parts, static_cast<unsigned>(a.rows));
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (reinterpret_cast<std::uintptr_t>(a.x) % 16 == 0 && a.x_row % Pack<T>::kCount == 0) {
      argmax_kernel<T, true><<<grid, kMaxThreads, 0, stream>>>(a);
    } else {
      argmax_kernel<T, false><<<grid, kMaxThreads, 0, stream>>>(a);
    }
  });
  if (parts > 1) argmax_merge_kernel<<<static_cast<unsigned>(a.rows), kWarp, 0, stream>>>(a, parts);
}

}  // namespace easydel::operations::cuda_kernels
