// Groups tensors into lists for one fused kernel call each.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "easydel/optim/tree.h"

namespace easydel::optim {

class FusedGroups {
 public:
  struct Key {
    bool flag;  // an extra argument of the kernel: whether weights decay
    at::ScalarType dtype;
    std::string device;
    auto operator<=>(const Key&) const = default;
  };
  // The first is the parameter. False when the kernel does not support them: they must have the same dtype, device and
  // memory layout, without gaps.
  bool add(bool flag, const Tensors& tensors);
  // For each key the lists: parameters, gradients, moments.
  const std::map<Key, std::vector<Tensors>>& groups() const { return groups_; }

 private:
  std::map<Key, std::vector<Tensors>> groups_;
};

// Bumps the version counters, which autograd and cached gathered weights check: fused kernels do not. Empty parts count
// too, so that all ranks see the same.
void mark_changed(const Tensors& tensors);

}  // namespace easydel::optim
