#include "easydel/infra/files/tied_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/log.h"
#include "easydel/layers/embedding.h"
#include "easydel/layers/linear.h"

namespace easydel {
namespace {

// Gives the layers of these weights parameters of their own.
class Untie final : public ModuleTransform {
 public:
  explicit Untie(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  void apply(BaseModule& module) const override {
    for (const auto& [path, layer] : module.named_modules()) {
      if (std::find(paths_.begin(), paths_.end(), path + ".weight") == paths_.end()) continue;
      const auto fresh = [](const std::shared_ptr<Parameter>& shared) {
        return std::make_shared<Parameter>(shared->dims, shared->init);
      };
      if (auto* linear = dynamic_cast<Linear*>(layer)) linear->tie_weight(fresh(linear->weight()));
      if (auto* table = dynamic_cast<Embedding*>(layer)) table->tie_weight(fresh(table->weight()));
    }
  }

 private:
  std::vector<std::string> paths_;
};

}  // namespace

std::shared_ptr<const ModuleTransform> untie_what_differs(const BaseModule& module, const TensorSource& source) {
  std::vector<std::string> paths;
  const FileNames names(module, source);
  for (const auto& [path, first] : module.tied_parameters()) {
    const auto own = names.find(path), other = names.find(first);
    if (!own || !other || *own == *other || !path.ends_with(".weight")) continue;
    const at::Tensor a = source.tensor(*own), b = source.tensor(*other);
    if (!at::isFloatingType(a.scalar_type()) || a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() ||
        at::equal(a, b))
      continue;
    log::info("[", source.where(), "] ", *own, " differs from ", *other, ", so each is a weight of its own.");
    paths.push_back(path);
  }
  return paths.empty() ? nullptr : std::make_shared<const Untie>(std::move(paths));
}

}  // namespace easydel
