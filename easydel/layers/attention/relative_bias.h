// T5's learned bias on scores: a number for each head and each bucket of distances.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel {

struct RelativeBiasSpec {
  int64_t buckets = 32;
  int64_t max_distance = 128;  // all that is farther is in the last bucket
  bool bidirectional = true;   // half of the buckets are for keys ahead; else those are in the bucket of distance 0
};

// [T, S] int64: the bucket of each query and key, for `queries` tokens behind `past` earlier ones.
at::Tensor relative_buckets(int64_t queries, int64_t keys, int64_t past, const RelativeBiasSpec& spec,
                            at::Device device);

}  // namespace easydel
