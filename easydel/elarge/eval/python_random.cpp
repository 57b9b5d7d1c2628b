#include "easydel/elarge/eval/python_random.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <sstream>
#include <unordered_set>

namespace easydel {
namespace {

constexpr std::size_t kState = 624;

// init_by_array of the Mersenne Twister's authors, with which Python seeds.
std::array<uint32_t, kState> seeded(uint64_t seed) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<uint32_t>(seed >> 32));
  std::array<uint32_t, kState> state{};
  state[0] = 19650218u;
  for (std::size_t i = 1; i < kState; ++i)
    state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + static_cast<uint32_t>(i);
  std::size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i >= kState) {
      state[0] = state[kState - 1];
      i = 1;
    }
  };
  for (std::size_t k = std::max(kState, key.size()); k > 0; --k) {
    state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525u)) + key[j] + static_cast<uint32_t>(j);
    advance();
    j = (j + 1) % key.size();
  }
  for (std::size_t k = kState - 1; k > 0; --k) {
    state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941u)) - static_cast<uint32_t>(i);
    advance();
  }
  state[0] = 0x80000000u;
  return state;
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) {
  // The text form of the engine is the one way that the standard gives to its whole state.
  std::stringstream text;
  for (const uint32_t word : seeded(seed)) text << word << ' ';
  text << kState;  // libstdc++ writes the position too; a library that does not leaves it unread
  text >> engine_;
}

uint32_t PythonRandom::bits() { return static_cast<uint32_t>(engine_()); }

double PythonRandom::random() {
  const uint32_t a = bits() >> 5, b = bits() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

uint64_t PythonRandom::below(uint64_t count) {
  const int width = std::bit_width(count);
  const auto draw = [&]() -> uint64_t {
    if (width <= 32) return bits() >> (32 - width);
    const uint64_t low = bits();
    return low | static_cast<uint64_t>(bits() >> (64 - width)) << 32;
  };
  uint64_t value = draw();
  while (value >= count) value = draw();
  return value;
}

std::vector<int64_t> PythonRandom::sample(int64_t population, int64_t count) {
  double pool_limit = 21;
  if (count > 5) pool_limit += std::pow(4, std::ceil(std::log(static_cast<double>(count) * 3) / std::log(4.0)));
  std::vector<int64_t> chosen;
  if (static_cast<double>(population) <= pool_limit) {
    std::vector<int64_t> pool(static_cast<std::size_t>(population));
    std::iota(pool.begin(), pool.end(), 0);
    for (int64_t i = 0; i < count; ++i) {
      const auto j = static_cast<std::size_t>(below(static_cast<uint64_t>(population - i)));
      chosen.push_back(pool[j]);
      pool[j] = pool[static_cast<std::size_t>(population - i - 1)];
    }
    return chosen;
  }
  std::unordered_set<int64_t> seen;
  while (static_cast<int64_t>(chosen.size()) < count) {
    const auto j = static_cast<int64_t>(below(static_cast<uint64_t>(population)));
    if (seen.insert(j).second) chosen.push_back(j);
  }
  return chosen;
}

}  // namespace easydel
