// Python's random.Random, as far as evaluation draws with it: the same seed gives the same numbers.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace easydel {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  double random();                                                 // in [0, 1)
  uint64_t below(uint64_t count);                                  // count > 0
  std::vector<int64_t> sample(int64_t population, int64_t count);  // indices, all different; count <= population

 private:
  uint32_t bits();

  std::mt19937 engine_;
};

}  // namespace easydel
