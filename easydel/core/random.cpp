#include "easydel/core/random.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <numbers>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

uint64_t mix(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Strictly inside (0, 1), so that logarithms and inverse distributions are finite.
float open_unit(uint32_t bits) { return (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f; }

std::array<uint32_t, 4> block_at(uint64_t index, RandomKey key) {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                    {static_cast<uint32_t>(key.bits()), static_cast<uint32_t>(key.bits() >> 32)});
}

// The four numbers of a block, of which element i is number i % 4 of block i / 4.
struct Uniform {
  float low, range;
  std::array<float, 4> operator()(const std::array<uint32_t, 4>& bits) const {
    std::array<float, 4> out{};
    // 24 bits starting at zero: low is included, high is not.
    for (int i = 0; i < 4; ++i) out[i] = low + range * (static_cast<float>(bits[i] >> 8) * 0x1p-24f);
    return out;
  }
};

struct Normal {  // Box-Muller, two pairs
  float mean, stddev;
  std::array<float, 4> operator()(const std::array<uint32_t, 4>& bits) const {
    std::array<float, 4> out{};
    for (int pair = 0; pair < 4; pair += 2) {
      const float radius = std::sqrt(-2.0f * std::log(open_unit(bits[pair])));
      const float angle = 2.0f * std::numbers::pi_v<float> * open_unit(bits[pair + 1]);
      out[pair] = mean + stddev * (radius * std::cos(angle));
      out[pair + 1] = mean + stddev * (radius * std::sin(angle));
    }
    return out;
  }
};

// Giles, "Approximating the erfinv function" (2012).
double inverse_erf(double x) {
  double w = -std::log((1.0 - x) * (1.0 + x));
  double p = 0;
  if (w < 5.0) {
    w -= 2.5;
    for (double c : {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                     -0.00417768164, 0.246640727, 1.50140941}) {
      p = c + p * w;
    }
  } else {
    w = std::sqrt(w) - 3.0;
    for (double c : {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                     0.00943887047, 1.00167406, 2.83297682}) {
      p = c + p * w;
    }
  }
  return p * x;
}

struct TruncatedNormal {
  double mean, stddev, low, high, low_cdf, high_cdf;  // the last two as erf(low / sqrt 2), erf(high / sqrt 2)
  std::array<float, 4> operator()(const std::array<uint32_t, 4>& bits) const {
    std::array<float, 4> out{};
    for (int i = 0; i < 4; ++i) {
      const double u = low_cdf + (high_cdf - low_cdf) * static_cast<double>(open_unit(bits[i]));
      const double z = std::clamp(std::numbers::sqrt2 * inverse_erf(u), low, high);
      out[i] = static_cast<float>(mean + stddev * z);
    }
    return out;
  }
};

template <class Distribution>
void fill_run(float* out, uint64_t first, int64_t count, RandomKey key, const Distribution& distribution) {
  for (int64_t done = 0; done < count;) {
    const uint64_t index = first + static_cast<uint64_t>(done);
    const auto values = distribution(block_at(index / 4, key));
    for (uint64_t lane = index % 4; lane < 4 && done < count; ++lane, ++done) out[done] = values[lane];
  }
}

template <class Distribution>
void fill(const at::Tensor& out, RandomKey key, const Region* region, const Distribution& distribution) {
  require<ConfigError>(out.is_floating_point(), "[random] the tensor must have a floating-point dtype; got ",
                       out.scalar_type(), ".");
  if (out.numel() == 0) return;
  const auto sizes = out.sizes();
  const std::vector<int64_t> shape = region ? region->global_shape : sizes.vec();
  const std::vector<int64_t> offset = region ? region->offset : std::vector<int64_t>(sizes.size(), 0);
  bool inside = shape.size() == sizes.size() && offset.size() == sizes.size();
  for (std::size_t d = 0; inside && d < sizes.size(); ++d) inside = offset[d] >= 0 && offset[d] + sizes[d] <= shape[d];
  require<ShapeError>(inside, "[random] the region at ", at::IntArrayRef(offset), " of size ", sizes,
                      " lies outside of ", at::IntArrayRef(shape), ".");

  // One run of consecutive indices for each row of the last dimension; rows are filled in parallel.
  const int64_t row = sizes.empty() ? 1 : sizes.back();
  const int64_t rows = out.numel() / row;
  const bool direct = out.device().is_cpu() && out.scalar_type() == at::kFloat && out.is_contiguous();
  const at::Tensor host = direct ? out : at::empty(sizes, at::TensorOptions(at::kFloat));
  float* data = host.data_ptr<float>();
  // A long row (a vector, say) is split among threads.
  const int64_t piece = std::min<int64_t>(row, 1 << 16);
  const int64_t pieces = (row + piece - 1) / piece;
  const int64_t grain = std::max<int64_t>(1, (1 << 14) / piece);
  at::parallel_for(0, rows * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t r = job / pieces;
      const int64_t start = job % pieces * piece;
      uint64_t index = 0;
      uint64_t stride = 1;
      int64_t rest = r;
      for (std::size_t d = sizes.size(); d-- > 0;) {
        const bool last = d + 1 == sizes.size();
        const int64_t coordinate = last ? start : rest % sizes[d];
        if (!last) rest /= sizes[d];
        index += stride * static_cast<uint64_t>(offset[d] + coordinate);
        stride *= static_cast<uint64_t>(shape[d]);
      }
      fill_run(data + r * row + start, index, std::min(piece, row - start), key, distribution);
    }
  });
  if (!direct) {
    const at::NoGradGuard no_grad;
    out.copy_(host);
  }
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kM0 = 0xD2511F53, kM1 = 0xCD9E8D57;
  constexpr uint32_t kW0 = 0x9E3779B9, kW1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kM0 * counter[0];
    const uint64_t p1 = kM1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + kW0, key[1] + kW1};
  }
  return counter;
}

RandomKey RandomKey::fold(std::string_view path) const {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, then mixed: the same on every machine, unlike std::hash
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return RandomKey(mix(mix(bits_ + kGolden) ^ hash));
}

RandomKey RandomKey::fold(uint64_t number) const {
  return RandomKey(mix(mix(bits_ + kGolden) + mix(number + kGolden)));
}

void fill_uniform(const at::Tensor& out, RandomKey key, double low, double high, const Region* region) {
  fill(out, key, region, Uniform{static_cast<float>(low), static_cast<float>(high - low)});
}

void fill_normal(const at::Tensor& out, RandomKey key, double mean, double stddev, const Region* region) {
  fill(out, key, region, Normal{static_cast<float>(mean), static_cast<float>(stddev)});
}

void fill_truncated_normal(const at::Tensor& out, RandomKey key, double mean, double stddev, double low, double high,
                           const Region* region) {
  require<ConfigError>(low < high, "[random] a truncated normal needs low < high; got ", low, " and ", high, ".");
  fill(out, key, region,
       TruncatedNormal{mean, stddev, low, high, std::erf(low / std::numbers::sqrt2),
                       std::erf(high / std::numbers::sqrt2)});
}

}  // namespace easydel
