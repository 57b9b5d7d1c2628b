// Orders that are computed and not stored: the element at a position depends only on the key and the position.
#pragma once

#include <cstdint>
#include <string_view>

namespace easydel::data {

// A bijection of 0 … size - 1: a Feistel network over Philox with cycle walking.
class Permutation {
 public:
  Permutation(int64_t size, uint64_t key);
  int64_t operator()(int64_t position) const;  // position in [0, size)

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_, key_;
  int half_bits_ = 4;  // with fewer, some orders would be more likely than others
};

// The key of a random stream: its purpose, the data set, the epoch or block.
uint64_t make_key(uint64_t seed, std::string_view purpose, uint64_t dataset, uint64_t number);

}  // namespace easydel::data
