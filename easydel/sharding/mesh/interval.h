// Which places along a dimension somebody holds: a list of intervals, in the order in which they are stored.
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

// Part `index` of `parts` of [0, size), as even as whole units allow. Where the first cut is equal, parts of parts are
// parts: cut in 2, then each half in 3, is cut in 6.
Interval even_part(int64_t size, int64_t parts, int64_t index);

// Places [range.begin, range.end) of what these intervals hold one after the other, as intervals of the dimension.
Intervals sub_intervals(const Intervals& intervals, Interval range);

// Where `wanted` lies in the memory of somebody who holds `held`: pairs of places there, in the order of `wanted`. All
// of it must be held.
Intervals locate(const Intervals& wanted, const Intervals& held);

}  // namespace easydel
