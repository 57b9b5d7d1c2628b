// Rewards of tokens, and what they say about each: generalized advantage estimation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "easydel/trainers/objectives/ppo/ppo_arguments.h"

namespace easydel {

// A completion's tokens, in order.
struct PpoTokens {
  std::vector<double> rewards, values;  // of each token; the value of what stands before it
  std::vector<double> advantages, returns;
};

// The divergence of one token's log-probability from the reference's.
double ppo_divergence(double logp, double reference, const std::string& estimator);

// Sums of this rank's numbers to those of all ranks.
using SumOverRanks = std::function<std::vector<double>(std::vector<double>)>;

// Fills in advantages and returns, from the last token to the first; rewards and advantages are whitened over all
// completions of all ranks.
void estimate_advantages(std::vector<PpoTokens>& completions, const PpoArguments& ppo, const SumOverRanks& sum);

}  // namespace easydel
