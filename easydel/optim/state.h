// The state of gradient transformations: a tree of counts, numbers and tensors, as in optax.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {
class WeightSharding;
}

namespace easydel::optim {

// Copies share the tensors.
struct OptState {
  struct Leaf {
    at::Tensor value;
    std::shared_ptr<const WeightSharding> sharding;  // null: every rank has all of it
  };
  using Leaves = std::map<std::string, Leaf, std::less<>>;  // by the parameter's path

  std::string kind;                            // "adamw", "chain"
  std::map<std::string, int64_t> counts = {};  // "count"
  std::map<std::string, double> scalars = {};  // injected hyperparameters
  std::map<std::string, Leaves> trees = {};    // "mu", "nu"
  std::vector<OptState> children = {};

  struct Named {
    std::string name;  // "0/mu/model.norm.weight": the child indices, the tree, the path
    Leaf* leaf;
  };
  struct ConstNamed {
    std::string name;
    const Leaf* leaf;
  };
  // All leaves of the subtree, in a fixed order, with unique names.
  std::vector<Named> leaves();
  std::vector<ConstNamed> leaves() const;

  // All but the tensors: kind, counts, scalars, children.
  Json to_json() const;
  // Restores counts and scalars from the result of to_json. ConfigError, which names `where`, when the kind or the
  // children differ, or a number is missing; nothing is changed then.
  void load_json(const Json& json, const std::string& where);

  OptState clone() const;  // a deep copy
  int64_t nbytes() const;  // of the tensors, on this rank
};

}  // namespace easydel::optim
