#include "easydel/sharding/mesh/dim.h"

namespace easydel {

Interval HeadCounts::query_part(int64_t parts, int64_t index) const {
  return HeadPart{*this, {0, query}, {0, kv}}.part(parts, index).query;
}

Interval HeadCounts::kv_part(int64_t parts, int64_t index) const {
  return HeadPart{*this, {0, query}, {0, kv}}.part(parts, index).kv;
}

HeadPart HeadPart::part(int64_t parts, int64_t index) const {
  if (parts == 1) return *this;
  const int64_t group = all.query / all.kv;
  HeadPart result{all, {}, {}};
  if (is_even() && kv.size() >= parts) {
    const int64_t queries = query.size() / kv.size();
    const Interval own = even_part(kv.size(), parts, index);
    result.query = {query.begin + own.begin * queries, query.begin + own.end * queries};
  } else {
    const Interval own = even_part(query.size(), parts, index);
    result.query = {query.begin + own.begin, query.begin + own.end};
  }
  if (result.query.size() > 0) result.kv = {result.query.begin / group, (result.query.end - 1) / group + 1};
  return result;
}

bool HeadPart::is_even() const {
  if (kv.size() == 0) return query.size() == 0;
  if (query.size() % kv.size() != 0) return false;
  const std::vector<int64_t> map = kv_of_query();
  const int64_t group = query.size() / kv.size();
  for (std::size_t q = 0; q < map.size(); ++q) {
    if (map[q] != static_cast<int64_t>(q) / group) return false;
  }
  return true;
}

std::vector<int64_t> HeadPart::kv_of_query() const {
  const int64_t group = all.query / all.kv;
  std::vector<int64_t> places;
  for (int64_t q = query.begin; q < query.end; ++q) places.push_back(q / group - kv.begin);
  return places;
}

Dim Dim::query_heads(HeadCounts heads, int64_t head_dim) {
  Dim dim(heads.query * head_dim, LogicalAxis::Head, head_dim);
  dim.heads = heads;
  return dim;
}

Dim Dim::kv_heads(HeadCounts heads, int64_t head_dim) {
  Dim dim(heads.kv * head_dim, LogicalAxis::KvHead, head_dim);
  dim.heads = heads;
  return dim;
}

Dim Dim::fused_heads(HeadCounts heads, int64_t head_dim) {
  Dim dim((heads.query + 2 * heads.kv) * head_dim, LogicalAxis::Head, head_dim);
  dim.segments = {heads.query * head_dim, heads.kv * head_dim, heads.kv * head_dim};
  dim.heads = heads;
  return dim;
}

Dim Dim::halves(int64_t half, LogicalAxis axis) {
  Dim dim(2 * half, axis);
  dim.segments = {half, half};
  return dim;
}

Intervals Dim::part(int64_t parts, int64_t index) const {
  Intervals intervals;
  int64_t at = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    Interval units;
    if (heads.query == 0) {
      units = even_part(segments[s] / grain, parts, index);
    } else if (axis == LogicalAxis::KvHead || s > 0) {
      units = heads.kv_part(parts, index);
    } else {
      units = heads.query_part(parts, index);
    }
    if (units.size() > 0) intervals.push_back({at + units.begin * grain, at + units.end * grain});
    at += segments[s];
  }
  return intervals;
}

bool Dim::has_shared_parts(int64_t parts) const {
  return heads.query > 0 && heads.shares_kv(parts) && (axis == LogicalAxis::KvHead || segments.size() > 1);
}

}  // namespace easydel
