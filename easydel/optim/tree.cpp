#include "easydel/optim/tree.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "easydel/core/error.h"

namespace easydel::optim {
namespace {

bool is_float(const at::Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }

}  // namespace

Items collect(const char* where, const TensorMap& updates, const TensorMap& params) {
  Items items;
  for (const auto& [path, update] : updates) {
    if (!update.defined()) continue;
    const at::Tensor* param = params.find(path);
    require<ConfigError>(param != nullptr, "[", where, "] there is a gradient for \"", path,
                         "\", but no such parameter among ", params.size(), ".");
    if (!is_float(*param)) continue;
    require<ConfigError>(is_float(update), "[", where, "] the gradient of \"", path,
                         "\" must be of a float dtype; got ", c10::toString(update.scalar_type()), ".");
    require<ShapeError>(update.sizes() == param->sizes(), "[", where, "] the gradient of \"", path, "\" is ",
                        update.sizes(), "; the parameter is ", param->sizes(), ".");
    items.paths.push_back(path);
    items.updates.push_back(update);
    items.params.push_back(*param);
  }
  return items;
}

Tensors leaves_of(const char* where, const OptState& state, const std::string& tree, const Items& items) {
  const auto found = state.trees.find(tree);
  require<ConfigError>(found != state.trees.end(), "[", where, "] the state has no tree \"", tree, "\".");
  Tensors out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto leaf = found->second.find(items.paths[i]);
    require<ConfigError>(leaf != found->second.end(), "[", where, "] the state is for other parameters: ", tree,
                         " has no entry for \"", items.paths[i], "\".");
    require<ShapeError>(leaf->second.value.sizes() == items.params[i].sizes(), "[", where, "] ", tree, " of \"",
                        items.paths[i], "\" is ", leaf->second.value.sizes(), "; the parameter is ",
                        items.params[i].sizes(), ".");
    out.push_back(leaf->second.value);
  }
  return out;
}

std::shared_ptr<const WeightSharding> sharding_of(const Placement& placement, const std::string& path) {
  const auto found = placement.shardings.find(path);
  return found == placement.shardings.end() ? nullptr : found->second;
}

OptState::Leaves full_like(const TensorMap& params, const Placement& placement, double value,
                           std::optional<at::ScalarType> dtype) {
  const at::NoGradGuard no_grad;
  OptState::Leaves leaves;
  for (const auto& [path, param] : params) {
    if (!is_float(param)) continue;
    auto options = param.options().requires_grad(false);
    if (dtype) options = options.dtype(*dtype);
    leaves[path] = {at::full_like(param, value, options), sharding_of(placement, path)};
  }
  return leaves;
}

void check_state(const OptState& state, const char* kind, std::size_t children) {
  require<ConfigError>(state.kind == kind, "[", kind, "] the state must be of kind \"", kind, "\"; got \"", state.kind,
                       "\". Create it with init().");
  require<ConfigError>(state.children.size() == children, "[", kind, "] the state must have ", children,
                       " children; got ", state.children.size(), ". Create it with init().");
}

void for_each_on_threads(bool on_cpu, std::size_t count, const std::function<void(std::size_t)>& f) {
  const auto run = [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;
    for (int64_t i = begin; i < end; ++i) f(static_cast<std::size_t>(i));
  };
  const auto all = static_cast<int64_t>(count);
  if (!on_cpu || all <= 1) return run(0, all);
  at::parallel_for(0, all, /*grain_size=*/1, run);
}

Tensors widen(const Tensors& tensors) {
  Tensors out;
  for (const at::Tensor& tensor : tensors) {
    const bool narrow = tensor.scalar_type() != at::kDouble && tensor.scalar_type() != at::kFloat;
    out.push_back(narrow ? tensor.to(at::kFloat) : tensor);
  }
  return out;
}

void narrow_into(const Tensors& to, const Tensors& from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (!to[i].is_same(from[i])) to[i].copy_(from[i]);
  }
}

double rate_at(const char* where, const char* key, const Schedule& schedule, int64_t step) {
  const double value = schedule(step);
  require<ConfigError>(std::isfinite(value) && value >= 0, "[", where, "] ", key,
                       " must be finite and not negative; got ", value, " from the schedule \"", schedule.name(),
                       "\" at step ", step, ".");
  return value;
}

void check_rate(const char* where, const char* key, const Schedule& schedule) {
  if (schedule.constant()) check_not_negative(where, key, *schedule.constant());
}

void check_not_negative(const char* where, const char* key, double value) {
  require<ConfigError>(std::isfinite(value) && value >= 0, "[", where, "] ", key,
                       " must be finite and not negative; got ", value, ".");
}

void check_positive(const char* where, const char* key, double value) {
  require<ConfigError>(std::isfinite(value) && value > 0, "[", where, "] ", key, " must be finite and positive; got ",
                       value, ".");
}

void check_decay(const char* where, const char* key, double value) {
  require<ConfigError>(value >= 0 && value < 1, "[", where, "] ", key, " must be in [0, 1); got ", value, ".");
}

}  // namespace easydel::optim
