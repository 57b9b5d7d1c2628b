// What attention asks of a cache, whatever keeps the keys and values: a dense block for each row, or pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace easydel {

// Letters: B batch, T new tokens, S all tokens seen so far, K key/value heads, H head size.
class Cache {
 public:
  virtual ~Cache() = default;
  // Adds the new keys and values [B, T, K, H] of a layer and returns all of them, [B, S, K, H].
  virtual std::pair<at::Tensor, at::Tensor> update(int64_t layer, const at::Tensor& k_BTKH,
                                                   const at::Tensor& v_BTKH) = 0;
  // Tokens that a layer has seen before the next update; the position of the next token.
  virtual int64_t length() const = 0;
};

}  // namespace easydel
