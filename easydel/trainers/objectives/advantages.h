// From rewards to advantages. A reward that nobody gave is NaN; such a completion has the advantage 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/trainers/objectives/policy_arguments.h"

namespace easydel {

// Mean and standard deviation with Bessel's correction, of the numbers that are not NaN; NaN without any, or one.
double mean_of(const std::vector<double>& values);
double deviation_of(const std::vector<double>& values);
// As torch.isclose has it; false for NaN.
bool is_zero_deviation(double deviation);

struct Advantages {
  std::vector<double> values;
  double zero_deviation_share = 0;  // of the groups, or 1 or 0 for a whole batch, whose rewards are all the same
};
// The rewards of one group follow each other. scaling: group, batch or none.
Advantages group_advantages(const std::vector<double>& rewards, int64_t group, const std::string& scaling);
// Less the mean of the others of the group.
Advantages leave_one_out_advantages(const std::vector<double>& rewards, int64_t group, bool normalize);

// Which completions of each group stay, in their order: those with the best scores, which are sums of
// efficiency_weight * reward / length, relative to the largest of all groups, and of
// length_weight * (1 - length / max_completion_length). Without a reward a completion comes last.
std::vector<std::size_t> filtered_groups(const std::vector<double>& rewards, const std::vector<double>& lengths,
                                         int64_t group, int64_t max_completion_length, const GfpoArguments& gfpo);

}  // namespace easydel
