#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "easydel/core/error.h"
#include "easydel/operations/rope.h"

namespace easydel::operations {
namespace {

using at::Tensor;

constexpr std::array<std::string_view, 6> kRopeTypes = {"default", "linear", "dynamic", "yarn", "llama3", "longrope"};

struct Problem {
  const RopeParameters& parameters;
  int64_t dim;  // rotated dimensions
  int64_t max_position_embeddings;
  std::optional<int64_t> seq_len;

  // theta^(2i / dim), in float32 as the reference computes it.
  Tensor powers(double theta) const {
    return at::pow(theta, at::arange(0, dim, 2, at::kFloat) / static_cast<double>(dim));
  }
  int64_t original_length() const {
    return parameters.original_max_position_embeddings.value_or(max_position_embeddings);
  }
  double factor_or_ratio() const {
    return parameters.factor.value_or(static_cast<double>(max_position_embeddings) /
                                      static_cast<double>(original_length()));
  }
};

double required(const RopeParameters& parameters, const std::optional<double>& value, const char* key) {
  require<ConfigError>(value.has_value(), "[rope_parameters] rope_type \"", parameters.rope_type, "\" needs `", key,
                       "`; got none.");
  return *value;
}

RopeFrequencies plain(const Problem& p) { return {1.0 / p.powers(p.parameters.rope_theta), 1.0}; }

RopeFrequencies linear(const Problem& p) {
  return {(1.0 / p.powers(p.parameters.rope_theta)) / required(p.parameters, p.parameters.factor, "factor"), 1.0};
}

RopeFrequencies dynamic(const Problem& p) {
  const double factor = required(p.parameters, p.parameters.factor, "factor");
  const double trained = static_cast<double>(p.max_position_embeddings);
  const double length = std::max(static_cast<double>(p.seq_len.value_or(0)), trained);
  const double dim = static_cast<double>(p.dim);
  require<ConfigError>(p.dim > 2, "[rope_parameters] rope_type \"dynamic\" needs more than 2 rotated dimensions; got ",
                       p.dim, ".");
  const double theta =
      p.parameters.rope_theta * std::pow(factor * length / trained - (factor - 1.0), dim / (dim - 2.0));
  return {1.0 / p.powers(theta), 1.0};
}

double yarn_mscale(double scale, double mscale) { return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0; }

RopeFrequencies yarn(const Problem& p) {
  const RopeParameters& r = p.parameters;
  const double factor = p.factor_or_ratio();
  double scaling = 1.0;
  if (r.attention_factor) {
    scaling = *r.attention_factor;
  } else if (r.mscale.value_or(0.0) != 0.0 && r.mscale_all_dim.value_or(0.0) != 0.0) {
    scaling = yarn_mscale(factor, *r.mscale) / yarn_mscale(factor, *r.mscale_all_dim);
  } else {
    scaling = yarn_mscale(factor, 1.0);
  }

  // The dimension with this many rotations over the original length.
  const double dim = static_cast<double>(p.dim);
  const auto correction_dim = [&](double rotations) {
    return dim * std::log(static_cast<double>(p.original_length()) / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(r.rope_theta));
  };
  const auto or_default = [](const std::optional<double>& value, double fallback) {
    return value.value_or(0.0) != 0.0 ? *value : fallback;
  };
  double low = correction_dim(or_default(r.beta_fast, 32.0));
  double high = correction_dim(or_default(r.beta_slow, 1.0));
  if (r.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;

  const Tensor powers = p.powers(r.rope_theta);
  const Tensor ramp = at::clamp((at::arange(p.dim / 2, at::kFloat) - low) / (high - low), 0, 1);
  const Tensor extrapolated = 1 - ramp;
  return {(1.0 / (factor * powers)) * (1 - extrapolated) + (1.0 / powers) * extrapolated, scaling};
}

RopeFrequencies llama3(const Problem& p) {
  const RopeParameters& r = p.parameters;
  const double factor = required(r, r.factor, "factor");
  const double low_factor = required(r, r.low_freq_factor, "low_freq_factor");
  const double high_factor = required(r, r.high_freq_factor, "high_freq_factor");
  require<ConfigError>(high_factor != low_factor,
                       "[rope_parameters] high_freq_factor must differ from low_freq_factor; got ", low_factor,
                       " for both.");
  const double length = static_cast<double>(p.original_length());
  const double low_wavelength = length / low_factor, high_wavelength = length / high_factor;

  const Tensor inv_freq = 1.0 / p.powers(r.rope_theta);
  const Tensor wavelength = 2.0 * std::numbers::pi / inv_freq;
  const Tensor scaled = at::where(wavelength > low_wavelength, inv_freq / factor, inv_freq);
  const Tensor smooth = (length / wavelength - low_factor) / (high_factor - low_factor);
  const Tensor smoothed = (1 - smooth) * scaled / factor + smooth * scaled;
  const Tensor between =
      at::logical_not(wavelength < high_wavelength).logical_and_(at::logical_not(wavelength > low_wavelength));
  return {at::where(between, smoothed, scaled), 1.0};
}

RopeFrequencies longrope(const Problem& p) {
  const RopeParameters& r = p.parameters;
  const double factor = p.factor_or_ratio();
  const double length = static_cast<double>(p.original_length());
  double scaling = 1.0;
  if (r.attention_factor) {
    scaling = *r.attention_factor;
  } else if (factor > 1.0) {
    scaling = std::sqrt(1.0 + std::log(factor) / std::log(length));
  }
  const bool is_long = p.seq_len.value_or(0) > p.original_length();
  const std::vector<double>& factors = is_long ? r.long_factor : r.short_factor;
  require<ConfigError>(static_cast<int64_t>(factors.size()) * 2 == p.dim, "[rope_parameters] `",
                       is_long ? "long_factor" : "short_factor", "` must have ", p.dim / 2,
                       " numbers, one for each pair of rotated dimensions; got ", factors.size(), ".");
  return {1.0 / (at::tensor(factors, at::kDouble).to(at::kFloat) * p.powers(r.rope_theta)), scaling};
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeParameters& parameters, int64_t head_dim, int64_t max_position_embeddings,
                                 std::optional<int64_t> seq_len) {
  const Problem problem{parameters,
                        static_cast<int64_t>(static_cast<double>(head_dim) * parameters.partial_rotary_factor),
                        max_position_embeddings, seq_len};
  require<ConfigError>(
      problem.dim > 0 && problem.dim <= head_dim && problem.dim % 2 == 0,
      "[rope_parameters] head_dim * partial_rotary_factor must be an even number in (0, head_dim]; got ", head_dim,
      " * ", parameters.partial_rotary_factor, ".");
  require<ConfigError>(parameters.rope_theta > 0.0, "[rope_parameters] rope_theta must be positive; got ",
                       parameters.rope_theta, ".");
  require<ConfigError>(!parameters.factor || *parameters.factor > 0.0,
                       "[rope_parameters] factor must be positive; got ", parameters.factor.value_or(0.0), ".");
  require<ConfigError>(max_position_embeddings > 0, "[rope_parameters] max_position_embeddings must be positive; got ",
                       max_position_embeddings, ".");
  const std::string& type = parameters.rope_type;
  if (type == "default") return plain(problem);
  if (type == "linear") return linear(problem);
  if (type == "dynamic") return dynamic(problem);
  if (type == "yarn") return yarn(problem);
  if (type == "llama3") return llama3(problem);
  if (type == "longrope") return longrope(problem);
  const std::string nearest = nearest_name(type, kRopeTypes);
  fail<ConfigError>("[rope_parameters] unknown rope_type \"", type,
                    "\"; known: default, linear, dynamic, yarn, llama3, longrope.",
                    nearest.empty() ? "" : " Did you mean \"" + nearest + "\"?");
}

bool rope_depends_on_length(const RopeParameters& parameters) {
  return parameters.rope_type == "dynamic" || parameters.rope_type == "longrope";
}

}  // namespace easydel::operations
