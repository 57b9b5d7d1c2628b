// BaseModule to and from a torch state dict.
#include "easydel/infra/base_module.h"
#include "easydel/infra/files/packed_files.h"
#include "easydel/infra/files/weights.h"

namespace easydel {

TensorMap BaseModule::to_torch() const {
  TensorMap map;
  for (const auto& [path, parameter] : named_parameters()) map.set(torch_path(path), parameter->whole());
  for (const auto& [path, first] : tied_parameters()) map.set(torch_path(path), map.at(torch_path(first)));
  return map;
}

GraphState BaseModule::transform_fn(const TensorMap& torch_state_dict) const {
  std::shared_ptr<BaseModule> checked = merge_module(graphdef(), params(), graphother());  // a scratch copy for errors
  LoadedWeights weights = load_weights(
      *checked, adapt_source(*checked, weights_of(torch_state_dict, "transform_fn")),
      [&](const at::Tensor& t, const Parameter& p) {
        // Detached: the state dict's own tensors must not come to require gradients.
        return at::isFloatingType(t.scalar_type()) ? t.detach().to(p.dtype_in(options_.param_dtype)) : t.detach();
      });
  bind_weights(*checked, std::move(weights), "transform_fn");
  return checked->params();
}

}  // namespace easydel
