// The online softmax of some heads over a part of the keys, and the merging of such parts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "easydel/operations/kernels/cpu/kernels.h"

namespace easydel::operations {

// The unnormalized sums, [heads, size], are stored next to it.
template <class A>
struct AttendPart {
  A maximum[kernels::kMaxSharedHeads], sum[kernels::kMaxSharedHeads];

  void clear(int64_t heads) {
    std::fill_n(maximum, heads, -std::numeric_limits<A>::infinity());
    std::fill_n(sum, heads, A(0));
  }
};

// Merges `count` parts of a head, whose sums are `stride` apart, into out [size]. Returns the log-sum-exp, -inf if
// there were no visible keys.
template <class A>
A merge_parts(const AttendPart<A>* parts, int64_t count, const A* sums, int64_t stride, int64_t head, int64_t size,
              A* out) {
  A maximum = -std::numeric_limits<A>::infinity(), sum = 0;
  for (int64_t p = 0; p < count; ++p) maximum = std::max(maximum, parts[p].maximum[head]);
  std::fill_n(out, size, A(0));
  if (std::isinf(maximum)) return maximum;
  for (int64_t p = 0; p < count; ++p) {
    const A weight = std::exp(parts[p].maximum[head] - maximum);
    sum += weight * parts[p].sum[head];
    const A* from = sums + p * stride + head * size;
    for (int64_t i = 0; i < size; ++i) out[i] += weight * from[i];
  }
  for (int64_t i = 0; i < size; ++i) out[i] /= sum;
  return maximum + std::log(sum);
}

// The number of parts to split `keys` into, so that `tasks` such ranges keep all threads busy.
inline int64_t attend_splits(int64_t keys, int64_t tasks, int64_t threads) {
  constexpr int64_t kKeysWorthATask = 32;
  const int64_t wanted = (4 * threads + tasks - 1) / std::max<int64_t>(1, tasks);
  return std::max<int64_t>(1, std::min(wanted, keys / kKeysWorthATask));
}

}  // namespace easydel::operations
