// A dimension of a weight, and how it may be split where ranks compute with parts of it.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/sharding/mesh/interval.h"
#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {

// Heads of an attention layer. Queries that share a key/value head stay together as long as there are enough groups;
// when there are more ranks than key/value heads, a rank has those of its queries, and several ranks have the same.
struct HeadCounts {
  int64_t query = 0;
  int64_t kv = 0;
  friend bool operator==(const HeadCounts&, const HeadCounts&) = default;
  Interval query_part(int64_t parts, int64_t index) const;
  Interval kv_part(int64_t parts, int64_t index) const;
  bool shares_kv(int64_t parts) const { return kv < parts && kv < query; }
};

// Some consecutive query heads, and their key/value heads.
struct HeadPart {
  HeadCounts all;
  Interval query, kv;

  // The share of rank `index` of `parts`.
  HeadPart part(int64_t parts, int64_t index) const;
  // Query heads are in equal groups, one for each key/value head, in order.
  bool is_even() const;
  // For each query head the index of its key/value head within `kv`.
  std::vector<int64_t> kv_of_query() const;
};

// Never split inside a grain (a head); each segment (q, k and v of one projection) is split separately.
struct Dim {
  Dim(int64_t size, LogicalAxis axis = LogicalAxis::Empty, int64_t grain = 1)
      : size(size), axis(axis), grain(grain), segments{size} {}
  // The dimension of one projection for q, k and v, or of one of them.
  static Dim query_heads(HeadCounts heads, int64_t head_dim);
  static Dim kv_heads(HeadCounts heads, int64_t head_dim);
  static Dim fused_heads(HeadCounts heads, int64_t head_dim);
  // Two equal halves: gate and up.
  static Dim halves(int64_t half, LogicalAxis axis);

  int64_t size;
  LogicalAxis axis;  // ranks compute with parts of this dimension over the mesh axes assigned to it
  int64_t grain;
  std::vector<int64_t> segments;  // sizes that sum to `size`
  HeadCounts heads;               // of a dimension of heads

  friend bool operator==(const Dim&, const Dim&) = default;
  // What rank `index` of `parts` computes with. Parts tile the dimension, except for shared key/value heads.
  Intervals part(int64_t parts, int64_t index) const;
  bool has_shared_parts(int64_t parts) const;
};

}  // namespace easydel
