#include "easydel/layers/embedding.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives.h"

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
  const bool native = ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt;
  const at::Tensor index = native ? ids : ids.to(at::kLong);
  if (!weight_->sharding()) return at::embedding(weight_->value(), index).to(dtype());

  const at::Tensor table = collectives::gather_weight(weight_->value(), dtype(), weight_->sharding());
  const AxisNames& terms = split_over(weight_->dims[0].axis);
  if (terms.empty()) return at::embedding(table, index);
  // Each rank looks up the tokens of its part of the table; the others' are zeros.
  const int64_t begin = weight_->sharding()->computed()[0].empty() ? 0 : weight_->sharding()->computed()[0][0].begin;
  at::Tensor found;
  if (table.size(0) == 0) {
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.push_back(weight_->shape[1]);
    found = at::zeros(shape, table.options()) + table.sum();
  } else {
    const at::Tensor place = index - begin;
    const at::Tensor outside = place.lt(0).logical_or_(place.ge(table.size(0)));
    found = at::embedding(table, place.masked_fill(outside, 0)).masked_fill(outside.unsqueeze(-1), 0);
  }
  return collectives::sum(found, parallel()->group(terms));
}

std::string Embedding::extra_repr() const { return concat(weight_->shape[0], ", ", weight_->shape[1]); }

}  // namespace easydel
