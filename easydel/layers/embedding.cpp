#include "easydel/layers/embedding.h"

#include "easydel/core/error.h"

namespace easydel {

Embedding::Embedding(Dim count, Dim features, double init_stddev)
    : weight_(add_parameter("weight", {count, features}, Initializer::normal(init_stddev))) {}

at::Tensor Embedding::operator()(const at::Tensor& ids) const {
  if (ids.is_cpu() && ids.numel() > 0 && !weight_->is_lazy()) {
    const auto [low, high] = at::aminmax(ids);
    require<ShapeError>(low.item<int64_t>() >= 0 && high.item<int64_t>() < weight_->shape[0],
                        "[Embedding] ids must lie in [0, ", weight_->shape[0], "); got ", low.item<int64_t>(), " to ",
                        high.item<int64_t>(), ".");
  }
  return at::embedding(weight_->value(), ids).to(dtype());
}

std::string Embedding::extra_repr() const { return concat(weight_->shape[0], ", ", weight_->shape[1]); }

}  // namespace easydel
