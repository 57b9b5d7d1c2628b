// An exponential moving average of the weights, for evaluation.
#pragma once

#include <optional>

#include "easydel/optim/transformation.h"

namespace easydel::optim {

struct ParamsEmaOptions {
  double decay = 0.999;
  std::optional<at::ScalarType> dtype = {};  // of the average; default: the parameter's
};

// Each rank averages its stored parts.
class ParamsEma {
 public:
  explicit ParamsEma(const ParamsEmaOptions& options);  // ConfigError on a decay outside [0, 1)
  explicit ParamsEma(double decay) : ParamsEma(ParamsEmaOptions{.decay = decay}) {}

  // Starts with a copy of these; non-float tensors are kept unchanged.
  void init(const TensorMap& params);
  // average = decay * average + (1 - decay) * params. ConfigError when the parameters differ.
  void update(const TensorMap& params);
  const TensorMap& params() const { return average_; }

 private:
  ParamsEmaOptions o_;
  TensorMap average_;
};

}  // namespace easydel::optim
