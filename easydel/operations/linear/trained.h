// Parts of a decoder layer whose gradients are computed together, on a GPU: fewer launches and less memory than if each
// operation had its own. Without a kernel for that, or where no gradient is needed, they are nullopt. The values are
// those of the operations one by one; sums of gradients are rounded after each product.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "easydel/operations/activation.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/norm.h"

namespace easydel::operations {

// Several linear maps of rms_norm(x), and x itself for the residual sum: whose gradient is added to the norm's in its
// kernel.
struct NormedLinears {
  std::vector<at::Tensor> results;
  at::Tensor x;
};
std::optional<NormedLinears> normed_linears(const at::Tensor& x, const at::Tensor& norm, const RmsNormOptions& options,
                                            const std::vector<LinearMap>& maps);

// A linear map of act(gate) * up, which is not kept for backward but computed again, by the kernel of its gradient.
// `gated` is gate and up, or one tensor with them as halves of the last dimension.
std::optional<at::Tensor> gated_linear(const std::vector<at::Tensor>& gated, const Activation& act,
                                       const LinearMap& map);

}  // namespace easydel::operations
