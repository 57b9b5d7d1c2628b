// Counter-based random numbers: the value at a global index depends on (seed, path, index) alone, so any slice of a
// tensor can be generated independently and is bit-identical to that slice of the full tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace easydel {

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Identifies a stream of random numbers: a seed and a path.
class RandomKey {
 public:
  explicit RandomKey(uint64_t seed) : bits_(seed) {}
  RandomKey fold(std::string_view path) const;  // the stream of a parameter
  RandomKey fold(uint64_t number) const;        // the stream of a step
  uint64_t bits() const { return bits_; }

 private:
  uint64_t bits_;
};

// The part of a full tensor to fill: indices offset[d] … offset[d] + tensor.size(d) of each dimension d.
struct Region {
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offset;
};

// Each fills `out` (any float dtype, any device, any strides) without touching torch's generators. Without a region
// `out` is the full tensor. ShapeError when `out` exceeds the region's shape.
void fill_uniform(const at::Tensor& out, RandomKey key, double low, double high, const Region* region = nullptr);
void fill_normal(const at::Tensor& out, RandomKey key, double mean, double stddev, const Region* region = nullptr);
// Truncated to [low, high] in units of stddev around the mean, by inverting the distribution function.
void fill_truncated_normal(const at::Tensor& out, RandomKey key, double mean, double stddev, double low = -2.0,
                           double high = 2.0, const Region* region = nullptr);

}  // namespace easydel
