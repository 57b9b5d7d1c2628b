// Index ranges along a dimension: a list of intervals, in storage order.
#pragma once

#include <cstdint>
#include <vector>

namespace easydel {

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};
using Intervals = std::vector<Interval>;

int64_t total_size(const Intervals& intervals);

// Part `index` of `parts` of [0, size), as even as whole units allow. If the first split is equal, splits nest: in 2,
// then each half in 3, equals in 6.
Interval even_part(int64_t size, int64_t parts, int64_t index);

// Maps [range.begin, range.end) of the concatenated intervals back to intervals of the dimension.
Intervals sub_intervals(const Intervals& intervals, Interval range);

// The position of `wanted` in a buffer that stores `held`: ranges in it, in the order of `wanted`. All of it must be
// held.
Intervals locate(const Intervals& wanted, const Intervals& held);

}  // namespace easydel
