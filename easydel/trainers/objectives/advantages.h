// From rewards to advantages. A reward that nobody gave is NaN; such a completion has the advantage 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace easydel {

// Mean and standard deviation with Bessel's correction, of the numbers that are not NaN; NaN without any, or one.
double mean_of(const std::vector<double>& values);
double deviation_of(const std::vector<double>& values);

struct Advantages {
  std::vector<double> values;
  double zero_deviation_share = 0;  // of the groups, or 1 or 0 for a whole batch, whose rewards are all the same
};
// The rewards of one group follow each other. scaling: group, batch or none.
Advantages group_advantages(const std::vector<double>& rewards, int64_t group, const std::string& scaling);
// Less the mean of the others of the group.
Advantages leave_one_out_advantages(const std::vector<double>& rewards, int64_t group, bool normalize);

}  // namespace easydel
