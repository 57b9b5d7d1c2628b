// What gradient transformations remember between steps: a tree of counts, numbers and tensors, as optax's states are.
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
    std::string name;  // "0/mu/model.norm.weight": the way down through the children, the tree, the path
    Leaf* leaf;
  };
  struct ConstNamed {
    std::string name;
    const Leaf* leaf;
  };
  // Everything below, in an order that does not change, under names that are unique.
  std::vector<Named> leaves();
  std::vector<ConstNamed> leaves() const;

  // All but the tensors: kind, counts, scalars, children.
  Json to_json() const;
  // Takes counts and scalars from what to_json gave. ConfigError, which names `where`, when it is of another kind, has
  // other children, or lacks a number; nothing is changed then.
  void load_json(const Json& json, const std::string& where);

  OptState clone() const;  // with memory of its own
  int64_t nbytes() const;  // of the tensors, on this rank
};

}  // namespace easydel::optim
