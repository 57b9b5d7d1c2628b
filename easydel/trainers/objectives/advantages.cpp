#include "easydel/trainers/objectives/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace easydel {
namespace {

constexpr double kSmallest = 1e-4;  // added to a deviation

std::vector<double> part_of(const std::vector<double>& values, std::size_t begin, int64_t count) {
  return {values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(begin) + count};
}

void zero_unknown(std::vector<double>& values) {
  for (double& value : values) {
    if (std::isnan(value)) value = 0;
  }
}

}  // namespace

double mean_of(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return sum / count;
}

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0, count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += (value - mean) * (value - mean);
    ++count;
  }
  return count > 1 ? std::sqrt(sum / (count - 1)) : std::nan("");
}

bool is_zero_deviation(double deviation) { return std::abs(deviation) <= 1e-8; }

Advantages group_advantages(const std::vector<double>& rewards, int64_t group, const std::string& scaling) {
  Advantages out{.values = rewards};
  const double of_batch = deviation_of(rewards);
  double zeros = 0, groups = 0;
  for (std::size_t begin = 0; begin < rewards.size(); begin += static_cast<std::size_t>(group)) {
    const std::vector<double> own = part_of(rewards, begin, group);
    const double mean = mean_of(own), deviation = scaling == "batch" ? of_batch : deviation_of(own);
    ++groups;
    if (is_zero_deviation(deviation)) ++zeros;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(group); ++i) {
      out.values[i] -= mean;
      if (scaling != "none") out.values[i] /= deviation + kSmallest;
    }
  }
  out.zero_deviation_share = zeros / groups;
  zero_unknown(out.values);
  return out;
}

Advantages leave_one_out_advantages(const std::vector<double>& rewards, int64_t group, bool normalize) {
  Advantages out{.values = rewards};
  double zeros = 0, groups = 0;
  for (std::size_t begin = 0; begin < rewards.size(); begin += static_cast<std::size_t>(group)) {
    const std::vector<double> own = part_of(rewards, begin, group);
    double sum = 0, count = 0;
    for (const double value : own) {
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    ++groups;
    if (is_zero_deviation(deviation_of(own))) ++zeros;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(group); ++i)
      out.values[i] -= (sum - rewards[i]) / (count - 1);
  }
  out.zero_deviation_share = zeros / groups;
  if (normalize) {
    const double mean = mean_of(out.values), deviation = deviation_of(out.values);
    for (double& value : out.values) value = (value - mean) / (deviation + kSmallest);
  }
  zero_unknown(out.values);
  return out;
}

std::vector<std::size_t> filtered_groups(const std::vector<double>& rewards, const std::vector<double>& lengths,
                                         int64_t group, int64_t max_completion_length, const GfpoArguments& gfpo) {
  const auto efficiency = [&](std::size_t i) { return rewards[i] / std::max(lengths[i], 1.0); };
  double largest = 0;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (!std::isnan(rewards[i])) largest = std::max(largest, std::abs(efficiency(i)));
  }
  std::vector<double> scores(rewards.size(), 0);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (gfpo.filter_by_efficiency) scores[i] += gfpo.efficiency_weight * efficiency(i) / (largest + 1e-8);
    if (gfpo.filter_by_length)
      scores[i] += gfpo.length_weight * (1 - lengths[i] / static_cast<double>(max_completion_length));
    if (std::isnan(rewards[i])) scores[i] = -std::numeric_limits<double>::infinity();
  }
  const auto size = static_cast<std::size_t>(group);
  const auto kept = static_cast<std::size_t>(gfpo.num_remains_in_group.value_or(group));
  std::vector<std::size_t> chosen;
  for (std::size_t begin = 0; begin < scores.size(); begin += size) {
    std::vector<std::size_t> own(size);
    std::iota(own.begin(), own.end(), begin);
    std::stable_sort(own.begin(), own.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    own.resize(kept);
    std::sort(own.begin(), own.end());
    chosen.insert(chosen.end(), own.begin(), own.end());
  }
  return chosen;
}

}  // namespace easydel
