// The states of recurrent layers in a cache's row_states. They follow the tokens and hold no history, so that a cache
// with some of them cannot go back.
#pragma once

#include <vector>

#include "easydel/caching/cache.h"

namespace easydel {

// Under keys below zero, beside what a layer of the same index may store itself.
inline int64_t recurrent_key(int64_t layer) { return -1 - layer; }

// Empty before the first token.
inline std::vector<at::Tensor> recurrent_states(const Cache& cache, int64_t layer) {
  const auto found = cache.row_states.find(recurrent_key(layer));
  return found == cache.row_states.end() ? std::vector<at::Tensor>() : found->second;
}

inline bool has_recurrent_states(const Cache& cache) {
  return !cache.row_states.empty() && cache.row_states.begin()->first < 0;
}

// In place where there are some, since a captured graph keeps using their memory.
void store_recurrent_states(Cache& cache, int64_t layer, const std::vector<at::Tensor>& states);

}  // namespace easydel
