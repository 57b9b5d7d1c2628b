#include <ATen/ATen.h>

#include "easydel/caching/cache.h"

#include "easydel/core/error.h"

namespace easydel {

bool LayerKeys::is_latent(DType stored) const {
  require<NotSupportedError>(value_dim == 0 || stored != at::kChar,
                             "[cache] a cache of latents does not support int8 codes. Set kvdtype to a float type.");
  return value_dim > 0;
}

SlotPart::SlotPart(std::shared_ptr<const Parallel> parallel) : parallel_(std::move(parallel)) {
  if (!parallel_) return;
  parts_ = parallel_->mesh().size(parallel_->sequence());
  rank_ = parallel_->mesh().index(parallel_->sequence());
}

at::Tensor SlotPart::merge(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& sinks) const {
  if (parts_ == 1 && !sinks.defined()) return out;
  const double infinity = std::numeric_limits<double>::infinity();
  const Group* group = parts_ > 1 ? &parallel_->group(parallel_->sequence()) : nullptr;
  at::Tensor maximum = lse.clone();
  if (group) group->all_reduce(maximum, ReduceOp::Max);
  if (sinks.defined()) maximum = at::maximum(maximum, sinks.to(lse.scalar_type()).view({1, -1, 1}));
  maximum.masked_fill_(maximum == -infinity, 0.0);
  const at::Tensor weight = at::exp(lse - maximum);
  // The sums of weighted values and of weights, in one message.
  at::Tensor sums = at::cat({out * weight.transpose(1, 2).unsqueeze(-1), weight.transpose(1, 2).unsqueeze(-1)}, -1);
  if (group) group->all_reduce(sums);
  at::Tensor total = sums.narrow(-1, out.size(-1), 1);
  if (sinks.defined())
    total = total + at::exp(sinks.to(lse.scalar_type()).view({1, -1, 1}) - maximum).transpose(1, 2).unsqueeze(-1);
  return sums.narrow(-1, 0, out.size(-1)) / total.masked_fill(total == 0.0, 1.0);
}

}  // namespace easydel
