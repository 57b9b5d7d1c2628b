#include "easydel/optim/rules/fused.h"

#include <ATen/ATen.h>

namespace easydel::optim {

bool FusedGroups::add(bool flag, const Tensors& tensors) {
  const at::Tensor& param = tensors[0];
  for (const at::Tensor& t : tensors) {
    if (t.scalar_type() != param.scalar_type() || t.device() != param.device() || t.sizes() != param.sizes() ||
        t.strides() != param.strides() || !t.is_non_overlapping_and_dense() || t.layout() != at::kStrided) {
      return false;
    }
  }
  if (param.numel() == 0) return true;
  auto& lists = groups_[{flag, param.scalar_type(), param.device().str()}];
  lists.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) lists[i].push_back(tensors[i]);
  return true;
}

void mark_changed(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace easydel::optim
