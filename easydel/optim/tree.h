// Helpers to process the tensors of a tree together: gradients with their parameters and states.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "easydel/optim/schedules.h"
#include "easydel/optim/transformation.h"

namespace easydel::optim {

using Tensors = std::vector<at::Tensor>;

// Aligned: the i-th update belongs to the i-th parameter. Only parameters of a float dtype with a gradient.
struct Items {
  std::vector<std::string> paths;
  Tensors updates, params;
  std::size_t size() const { return paths.size(); }
};
Items collect(const char* where, const TensorMap& updates, const TensorMap& params);
// The leaves of the tree for each; ConfigError when it is for other parameters.
Tensors leaves_of(const char* where, const OptState& state, const std::string& tree, const Items& items);

// Zeros, or another value, for each parameter of a float dtype that passes the filter, in the parameter's layout.
OptState::Leaves full_like(const TensorMap& params, const Placement& placement, double value = 0,
                           std::optional<at::ScalarType> dtype = {});
std::shared_ptr<const WeightSharding> sharding_of(const Placement& placement, const std::string& path);

// ConfigError unless init of this kind created the state.
void check_state(const OptState& state, const char* kind, std::size_t children = 0);

// f(i) for all i below count: on the CPU in parallel, elsewhere in order. Without autograd.
void for_each_on_threads(bool on_cpu, std::size_t count, const std::function<void(std::size_t i)>& f);
// Widened to float32 if narrower; the tensors themselves otherwise.
Tensors widen(const Tensors& tensors);
// Copies back what is not the same tensor.
void narrow_into(const Tensors& to, const Tensors& from);

// Checks of options. ConfigError names the key and the value.
void check_rate(const char* where, const char* key, const Schedule& schedule);        // non-negative
double rate_at(const char* where, const char* key, const Schedule& s, int64_t step);  // the same, for this step
void check_not_negative(const char* where, const char* key, double value);            // and finite
void check_positive(const char* where, const char* key, double value);                // and finite
void check_decay(const char* where, const char* key, double value);                   // in [0, 1)

}  // namespace easydel::optim
