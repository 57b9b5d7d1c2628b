#include "easydel/layers/conv1d.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

Conv1d::Conv1d(const Conv1dSpec& spec)
    : spec_(spec),
      weight_(add_parameter("weight", {Dim(spec.out), Dim(spec.in), Dim(spec.taps)},
                            Initializer::normal(spec.init_stddev))),
      bias_(add_parameter("bias", {Dim(spec.out)}, Initializer::zeros())) {}

at::Tensor Conv1d::operator()(const at::Tensor& x_BCT) const {
  const auto whole = [&](const Parameter& p) { return collectives::gather_weight(p.value(), dtype(), p.sharding()); };
  return at::conv1d(x_BCT, whole(*weight_), whole(*bias_), spec_.stride, spec_.padding);
}

double Conv1d::own_flops_per_token(double) const {
  return 2.0 * static_cast<double>(spec_.in * spec_.taps) * static_cast<double>(spec_.out);
}

std::string Conv1d::extra_repr() const {
  return concat(spec_.in, ", ", spec_.out, ", kernel_size=(", spec_.taps, ",), stride=(", spec_.stride, ",), padding=(",
                spec_.padding, ",)");
}

}  // namespace easydel
