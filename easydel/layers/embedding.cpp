#include "easydel/layers/embedding.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

Embedding::Embedding(Dim count, Dim features, double init_stddev)
    : count_(count),
      features_(features),
      weight_(add_parameter("weight", {count, features}, Initializer::normal(init_stddev))) {}

void Embedding::set_packed(std::shared_ptr<const PackedTable> packed, std::shared_ptr<Parameter> dense) {
  packed_ = std::move(packed);
  weight_ = std::move(dense);
  set_parameter("weight", weight_);
}

void Embedding::tie_weight(const std::shared_ptr<Parameter>& weight) {
  tie_parameter("weight", weight);
  weight_ = weight;
}

at::Tensor Embedding::operator()(const at::Tensor& ids) const {
  if (ids.is_cpu() && ids.numel() > 0 && (packed_ || !weight_->is_lazy())) {
    const auto [low, high] = at::aminmax(ids);
    require<ShapeError>(low.item<int64_t>() >= 0 && high.item<int64_t>() < count_.size,
                        "[Embedding] ids must be in [0, ", count_.size, "); got ", low.item<int64_t>(), " to ",
                        high.item<int64_t>(), ".");
  }
  const bool native = ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt;
  const at::Tensor index = native ? ids : ids.to(at::kLong);
  const at::Tensor found = look_up(index);
  return adapter_ ? (*adapter_)(index, found) : found;
}

at::Tensor Embedding::look_up(const at::Tensor& index) const {
  const AxisNames& terms = split_over(count_.axis);
  const int64_t padding = padding_.value_or(-1);
  at::Tensor table;
  int64_t first = 0, rows = count_.size;
  if (packed_) {
    if (terms.empty()) return packed_->rows(index, dtype());
    first = packed_->first_row();
    rows = packed_->row_count();
  } else {
    if (!weight_->sharding()) return at::embedding(weight_->value(), index, padding).to(dtype());
    table = collectives::gather_weight(weight_->value(), dtype(), weight_->sharding());
    if (terms.empty()) return at::embedding(table, index, padding);
    const Intervals& held = weight_->sharding()->computed()[0];
    first = held.empty() ? 0 : held[0].begin;
    rows = table.size(0);
  }
  // Each rank looks up the tokens of its part of the table; the others are zeros.
  at::Tensor found;
  if (rows == 0) {
    std::vector<int64_t> shape = index.sizes().vec();
    shape.push_back(features_.size);
    found = at::zeros(shape, index.options().dtype(dtype()));
    found =
        table.defined() ? found + table.sum() : found + packed_->rows(index.flatten().narrow(0, 0, 0), dtype()).sum();
  } else {
    const at::Tensor place = index - first;
    const at::Tensor outside = place.lt(0).logical_or_(place.ge(rows));
    const at::Tensor inside = place.masked_fill(outside, 0);
    const int64_t own_padding = padding >= first && padding < first + rows ? padding - first : -1;
    found = packed_ ? packed_->rows(inside, dtype()) : at::embedding(table, inside, own_padding);
    found = found.masked_fill(outside.unsqueeze(-1), 0);
  }
  return collectives::sum(found, parallel()->group(terms));
}

std::string Embedding::extra_repr() const { return concat(count_.size, ", ", features_.size); }

}  // namespace easydel
