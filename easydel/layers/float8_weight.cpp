#include "easydel/layers/float8_weight.h"

#include <algorithm>

#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

at::Tensor Float8Weight::multiply(const at::Tensor& x, std::string_view name) const {
  const Parameter& weight = *linear_.weight();
  return operations::float8_linear(x, weight.value(), scales_, name, weight.sharding());
}

at::Tensor Float8Weight::dequantize(DType dtype) const {
  const Parameter& weight = *linear_.weight();
  return collectives::gather_weight(weight.value(), dtype, weight.sharding());
}

bool Float8Weight::fits(const Linear& linear) {
  if (!linear.weight() || linear.options().transposed) return false;
  const Parameter& weight = *linear.weight();
  std::vector<int64_t> sizes = weight.shape;
  if (weight.sharding()) {
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = total_size(weight.sharding()->computed()[i]);
  }
  return std::all_of(sizes.begin(), sizes.end(),
                     [](int64_t size) { return size > 0 && size % operations::kFloat8Multiple == 0; });
}

}  // namespace easydel
