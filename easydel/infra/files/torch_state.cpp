#include "easydel/infra/files/torch_state.h"

#include "easydel/infra/base_module.h"
#include "easydel/infra/files/packed_files.h"
#include "easydel/infra/files/weights.h"
#include "easydel/infra/state/split_merge.h"

namespace easydel {

TensorMap to_torch(const BaseModule& model) {
  TensorMap map;
  for (const auto& [path, parameter] : model.named_parameters()) {
    const at::Tensor whole = parameter->whole();
    if (const std::string name = model.torch_path(path); !name.empty()) {
      map.set(name, whole);
      continue;
    }
    // The class has what files have: experts one by one.
    for (const FilePiece& piece : parameter->layout_in_files(path)) map.set(piece.name, cut(whole, piece).contiguous());
  }
  for (const auto& [path, first] : model.tied_parameters())
    map.set(model.torch_path(path), map.at(model.torch_path(first)));
  return map;
}

GraphState transform_fn(const BaseModule& model, const TensorMap& torch_state_dict) {
  std::shared_ptr<BaseModule> checked =
      merge_module(model.graphdef(), model.params(), graphother(model));  // a scratch copy for errors
  LoadedWeights weights = load_weights(
      *checked, *adapt_source(*checked, make_tensor_source(torch_state_dict, "transform_fn")),
      [&](const at::Tensor& t, const Parameter& p) {
        // Detached: the state dict's own tensors must not come to require gradients.
        return at::isFloatingType(t.scalar_type()) ? t.detach().to(p.dtype_in(model.param_dtype())) : t.detach();
      });
  bind_weights(*checked, std::move(weights), "transform_fn");
  return checked->params();
}

}  // namespace easydel
