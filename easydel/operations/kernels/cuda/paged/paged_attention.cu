// Attention over pages that hold elements of the queries' type, and what all kinds of pages share: how the keys are
// split, and the sum of the parts.
#include "easydel/operations/kernels/cuda/paged/paged_decode.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

// The parts of one query head.
template <class T>
__global__ void paged_merge_kernel(const PagedDecode a) {
  const int head = blockIdx.x, query = blockIdx.y, parts = span_of(a, query).parts;
  const int64_t row = static_cast<int64_t>(query) * gridDim.x + head, at = row * a.splits;
  const float* values = a.scratch + 2 * split_rows(a) + at * a.value_size;
  float largest = -INFINITY, sum = 0;
  for (int s = 0; s < parts; ++s) largest = fmaxf(largest, a.scratch[2 * (at + s)]);
  for (int s = 0; s < parts; ++s) sum += a.scratch[2 * (at + s) + 1] * power_of_two(a.scratch[2 * (at + s)] - largest);
  for (int d = threadIdx.x; d < a.value_size; d += blockDim.x) {
    float value = 0;
    for (int s = 0; s < parts; ++s)
      value += values[static_cast<int64_t>(s) * a.value_size + d] * power_of_two(a.scratch[2 * (at + s)] - largest);
    if (parts > 0) {
      put_result<T>(a, row, head, d, value, largest, sum);
    } else {
      static_cast<T*>(a.out)[row * a.value_size + d] = narrow<T>(0.0f);
    }
  }
}

}  // namespace

bool can_paged_decode(const PagedDecode& a) {
  return a.head_size <= kMaxRow && a.value_size <= kMaxRow && a.queries <= 65535 && a.kv_heads * a.shared <= 65535;
}

void plan_paged_decode(PagedDecode& a, int64_t max_length) {
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int64_t visited = a.window > 0 ? std::min(max_length, a.window + kTileKeys) : max_length;
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(a.queries) * a.kv_heads);
  const int64_t to_fill = (4LL * processors + rows - 1) / rows;  // every multiprocessor has room for about this many
  const int64_t most = std::clamp<int64_t>((visited + kPartKeys - 1) / kPartKeys, 1, kMaxSplits);
  // A sequence that is much longer than the others must not keep one block busy while the rest of the GPU waits.
  a.splits = static_cast<int32_t>(std::clamp<int64_t>(std::max(to_fill, visited / 4096), 1, most));
  a.least_keys = to_fill > 1 ? kPartKeys : 1024;
}

int64_t scratch_floats(const PagedDecode& a) { return a.splits == 1 ? 0 : split_rows(a) * (a.value_size + 2); }

void paged_decode(Element type, const PagedDecode& a, Stream stream) {
  if (a.queries == 0 || a.kv_heads == 0 || a.shared == 0 || a.value_size == 0) return;
  if (a.rows != PageRows::Plain) paged_decode_coded(type, a, stream);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (a.rows == PageRows::Plain) {
      bool done = false;
      if constexpr (!std::is_same_v<T, float>) done = decode_in_tiles<T, PlainRows<T>>(a, stream);
      if (!done) decode_plainly<T, PlainRows<T>>(a, stream);
    }
    if (a.splits > 1) {
      const dim3 heads(a.kv_heads * a.shared, a.queries);
      paged_merge_kernel<T><<<heads, 64, 0, stream>>>(a);
    }
  });
}

}  // namespace easydel::operations::cuda_kernels
