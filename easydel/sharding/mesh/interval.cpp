#include "easydel/sharding/mesh/interval.h"

#include <algorithm>
#include <cassert>

namespace easydel {

int64_t total_size(const Intervals& intervals) {
  int64_t sum = 0;
  for (const Interval& i : intervals) sum += i.size();
  return sum;
}

Interval even_part(int64_t size, int64_t parts, int64_t index) {
  return {index * size / parts, (index + 1) * size / parts};
}

Intervals sub_intervals(const Intervals& intervals, Interval range) {
  Intervals found;
  int64_t at = 0;
  for (const Interval& i : intervals) {
    const int64_t begin = std::max(range.begin, at);
    const int64_t end = std::min(range.end, at + i.size());
    if (begin < end) found.push_back({i.begin + begin - at, i.begin + end - at});
    at += i.size();
  }
  return found;
}

Intervals locate(const Intervals& wanted, const Intervals& held) {
  Intervals places;
  for (Interval rest : wanted) {
    while (rest.size() > 0) {
      int64_t at = 0;
      bool found = false;
      for (const Interval& h : held) {
        if (rest.begin >= h.begin && rest.begin < h.end) {
          const int64_t count = std::min(rest.end, h.end) - rest.begin;
          const int64_t place = at + rest.begin - h.begin;
          if (!places.empty() && places.back().end == place) {
            places.back().end += count;
          } else {
            places.push_back({place, place + count});
          }
          rest.begin += count;
          found = true;
          break;
        }
        at += h.size();
      }
      assert(found);
      if (!found) return places;
    }
  }
  return places;
}

}  // namespace easydel
