// Random choices from a seed that a failing test prints.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace easydel::testing_support {

class Draw {
 public:
  explicit Draw(uint64_t seed) : generator_(seed) {}

  int64_t between(int64_t low, int64_t high) {  // both included
    return std::uniform_int_distribution<int64_t>(low, high)(generator_);
  }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(generator_) < p; }
  template <class T>
  T one_of(std::initializer_list<T> options) {
    return *(options.begin() + between(0, static_cast<int64_t>(options.size()) - 1));
  }
  template <class T>
  const T& one_of(const std::vector<T>& options) {
    return options[static_cast<std::size_t>(between(0, static_cast<int64_t>(options.size()) - 1))];
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace easydel::testing_support
