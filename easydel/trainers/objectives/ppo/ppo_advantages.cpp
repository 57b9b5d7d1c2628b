#include "easydel/trainers/objectives/ppo/ppo_advantages.h"

#include <cmath>

namespace easydel {
namespace {

// (x - mean) / sqrt(variance + 1e-8), with Bessel's correction; the mean comes back where it is to stay.
void whiten(std::vector<PpoTokens>& completions, std::vector<double> PpoTokens::* numbers, bool keep_mean,
            const SumOverRanks& sum) {
  const auto over_all = [&](const std::function<double(double)>& term) {
    double count = 0, total = 0;
    for (const PpoTokens& each : completions) {
      for (const double value : each.*numbers) {
        ++count;
        total += term(value);
      }
    }
    return sum({count, total});
  };
  const std::vector<double> first = over_all([](double value) { return value; });
  if (first[0] < 2) return;
  const double mean = first[1] / first[0];
  const std::vector<double> second = over_all([mean](double value) { return (value - mean) * (value - mean); });
  const double scale = 1 / std::sqrt(second[1] / (second[0] - 1) + 1e-8);
  for (PpoTokens& each : completions) {
    for (double& value : each.*numbers) value = (value - mean) * scale + (keep_mean ? mean : 0);
  }
}

}  // namespace

double ppo_divergence(double logp, double reference, const std::string& estimator) {
  const double apart = reference - logp;
  return estimator == "k1" ? -apart : std::expm1(apart) - apart;
}

void estimate_advantages(std::vector<PpoTokens>& completions, const PpoArguments& ppo, const SumOverRanks& sum) {
  if (ppo.whiten_rewards) whiten(completions, &PpoTokens::rewards, /*keep_mean=*/true, sum);
  for (PpoTokens& each : completions) {
    const std::size_t tokens = each.rewards.size();
    each.advantages.assign(tokens, 0);
    each.returns.assign(tokens, 0);
    double next_value = 0, advantage = 0;
    for (std::size_t t = tokens; t-- > 0;) {
      const double error = each.rewards[t] + ppo.gamma * next_value - each.values[t];
      advantage = error + ppo.gamma * ppo.lam * advantage;
      each.advantages[t] = advantage;
      each.returns[t] = advantage + each.values[t];
      next_value = each.values[t];
    }
  }
  if (ppo.whiten_advantages) whiten(completions, &PpoTokens::advantages, /*keep_mean=*/false, sum);
}

}  // namespace easydel
