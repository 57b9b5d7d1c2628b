#include "easydel/data/order/permutation.h"

#include <algorithm>
#include <bit>

#include "easydel/core/random.h"

namespace easydel::data {

Permutation::Permutation(int64_t size, uint64_t key) : size_(static_cast<uint64_t>(size)), key_(key) {
  if (size_ > 1) half_bits_ = std::max(half_bits_, (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2);
}

uint64_t Permutation::encrypt(uint64_t value) const {
  constexpr int kRounds = 6;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto bits = philox4x32({static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0},
                                 {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
    const uint64_t next = left ^ ((bits[0] | uint64_t{bits[1]} << 32) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t position) const {
  if (size_ <= 1) return position;
  // The network permutes at most four times as many numbers, or 256, so the cycle walk is short.
  uint64_t value = encrypt(static_cast<uint64_t>(position));
  while (value >= size_) value = encrypt(value);
  return static_cast<int64_t>(value);
}

uint64_t make_key(uint64_t seed, std::string_view purpose, uint64_t dataset, uint64_t number) {
  return RandomKey(seed).fold(purpose).fold(dataset).fold(number).bits();
}

}  // namespace easydel::data
