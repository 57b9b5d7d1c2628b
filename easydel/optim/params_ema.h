// A moving average of the weights, as used for evaluation.
#pragma once

#include <optional>

#include "easydel/optim/transformation.h"

namespace easydel::optim {

struct ParamsEmaOptions {
  double decay = 0.999;
  std::optional<at::ScalarType> dtype = {};  // of the average; the parameter's
};

// Each rank averages what it stores.
class ParamsEma {
 public:
  explicit ParamsEma(const ParamsEmaOptions& options);  // ConfigError on a decay outside of [0, 1)
  explicit ParamsEma(double decay) : ParamsEma(ParamsEmaOptions{.decay = decay}) {}

  // Begins with a copy of these; what is no float is kept as it is.
  void init(const TensorMap& params);
  // average = decay * average + (1 - decay) * params. ConfigError when these are other parameters.
  void update(const TensorMap& params);
  const TensorMap& params() const { return average_; }

 private:
  ParamsEmaOptions o_;
  TensorMap average_;
};

}  // namespace easydel::optim
