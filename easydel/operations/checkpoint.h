// Gradient checkpointing: drops the activations inside a function and recomputes them in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace easydel::operations {

enum class CheckpointRule { Everything, Nothing, AllDots, OnlyNames, NamedExcept, AllExcept, NamedExceptFamilies };

// EasyDeL's policies. A "dot" is a result of operations::linear or grouped_linear, with the name that it was called
// with, or of blockwise, flash and cuDNN attention, "attn_output".
//   "", none, everything_saveable         nothing is recomputed
//   nothing_saveable                      all of it is
//   checkpoint_dots, dots_saveable, checkpoint_dots_with_no_batch_dims, dots_with_no_batch_dims_saveable
//                                         dots are kept, the rest is recomputed
//   save_only_these_names                 keeps dots with these names
//   save_any_names_but_these              keeps dots with a name, except these
//   save_anything_except_these_names      keeps all dots except these
//   save_from_both_policies               the same as checkpoint_dots with save_only_these_names
//   mlp_notsaveable, attn_notsaveable, mlp_attn_notsaveable
//                                         keeps dots whose name does not begin with mlp_ or moe_, with attn_, …
class CheckpointPolicy {
 public:
  CheckpointPolicy() = default;  // "none"
  // ConfigError on an unknown policy (lists the known ones), and when a policy that needs names gets none.
  explicit CheckpointPolicy(const std::string& name, std::vector<std::string> targets = {});

  bool recomputes() const;
  bool keeps(std::string_view dot_name) const;

 private:
  CheckpointRule rule_ = CheckpointRule::Everything;
  std::vector<std::string> targets_;  // names, or prefixes
};
std::vector<std::string> checkpoint_policy_names();

using TensorList = std::vector<at::Tensor>;

// Runs fn(inputs) and keeps only the inputs (and the dots that the policy keeps). Backward runs fn again: the gradients
// of the inputs propagate, those of parameters that fn captured are added to their .grad, so it needs backward() and
// not autograd::grad. fn must be deterministic: its dropout comes from keys. Calls may be nested.
TensorList checkpoint(const std::function<TensorList(const TensorList&)>& fn, const TensorList& inputs,
                      const CheckpointPolicy& policy = CheckpointPolicy("nothing_saveable"));

// For implementing expensive operations: inside a checkpoint that keeps `name`, computes in the first run and returns
// the saved result in the second; elsewhere just computes. The caller provides the backward.
at::Tensor keep_dot(std::string_view name, const std::function<at::Tensor()>& compute);
TensorList keep_dots(std::string_view name, const std::function<TensorList()>& compute);
bool inside_checkpoint();  // on the calling thread

}  // namespace easydel::operations
