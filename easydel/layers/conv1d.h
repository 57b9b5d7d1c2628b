// A convolution over time, as in torch: weight [out, in, taps].
#pragma once

#include <string>

#include "easydel/layers/module.h"

namespace easydel {

struct Conv1dSpec {
  int64_t in = 0, out = 0;
  int64_t taps = 3;
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on both sides
  double init_stddev = 0.02;
};

// On a mesh every rank convolves its own rows with all channels.
class Conv1d : public Module {
 public:
  explicit Conv1d(const Conv1dSpec& spec);
  at::Tensor operator()(const at::Tensor& x_BCT) const;
  double own_flops_per_token(double) const override;
  std::string extra_repr() const override;

 private:
  Conv1dSpec spec_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace easydel
