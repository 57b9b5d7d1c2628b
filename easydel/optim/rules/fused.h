// Sorts tensors into lists that one fused kernel takes at once.
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
    bool flag;  // what else the kernel is told: whether weights decay
    at::ScalarType dtype;
    std::string device;
    auto operator<=>(const Key&) const = default;
  };
  // The first is the parameter. False when the kernel does not take them: they must agree in dtype and device and lie
  // in memory alike, without gaps.
  bool add(bool flag, const Tensors& tensors);
  // For each key the lists: parameters, gradients, moments.
  const std::map<Key, std::vector<Tensors>>& groups() const { return groups_; }

 private:
  std::map<Key, std::vector<Tensors>> groups_;
};

// Tells who watches their version (autograd, gathered weights that are kept) that these have changed: fused kernels do
// not. Parts without elements count too, so that all ranks see the same.
void mark_changed(const Tensors& tensors);

}  // namespace easydel::optim
