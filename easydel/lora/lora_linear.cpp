#include "easydel/lora/lora_linear.h"

#include <ATen/ATen.h>

#include "easydel/layers/layer_scope.h"
#include "easydel/operations/dropout.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

// A factor that every rank has whole while the other one is cut: each rank has a term of its gradient.
at::Tensor usable(const Parameter& parameter, at::ScalarType dtype, const Parallel* parallel, LogicalAxis cut) {
  const at::Tensor weight = collectives::gather_weight(parameter.value(), dtype, parameter.sharding());
  if (!parallel || parallel->axes(cut).empty()) return weight;
  return collectives::identity_forward_sum_backward(weight, parallel->group(parallel->axes(cut)));
}

}  // namespace

at::Tensor base_matrix(const Linear& linear, DType dtype) {
  if (linear.packed()) return linear.packed()->dequantize(dtype);
  const at::Tensor weight = collectives::gather_weight(linear.weight()->value(), dtype, linear.weight()->sharding());
  return linear.options().transposed ? weight.t() : weight;
}

LoraLinear::Factors LoraLinear::factors(const LoraPart& part, at::ScalarType dtype) const {
  const Parallel* parallel = base_.parallel().get();
  const LogicalAxis in = base_.in_dim().axis, out = base_.out_dim().axis;
  Factors f{usable(*part.weights.a, dtype, parallel, out), usable(*part.weights.b, dtype, parallel, in), {}};
  if (part.weights.magnitude) f.magnitude = usable(*part.weights.magnitude, dtype, parallel, in);
  return f;
}

at::Tensor LoraLinear::row_factor(const LoraPart& part, const Factors& f, const at::Tensor& base) const {
  at::Tensor norm;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor sum = base + part.scaling * at::mm(f.b, f.a);
    const Parallel* parallel = base_.parallel().get();
    const AxisNames& cut = parallel ? parallel->axes(base_.in_dim().axis) : AxisNames();
    norm = cut.empty() ? at::linalg_vector_norm(sum, 2, at::IntArrayRef{1})
                       : collectives::sum(sum.square().sum(1), parallel->group(cut)).sqrt();
  }
  return f.magnitude / norm;
}

at::Tensor LoraLinear::drop(const at::Tensor& x, const LoraPart& part) const {
  const ForwardContext* forward = current_forward();
  if (part.dropout == 0 || !forward || !forward->dropout_key) return x;
  const RandomKey key = forward->dropout_key->fold("lora").fold(part.key);
  const auto& sharding = part.weights.a->sharding();
  if (x.dim() != 3 || forward->part.batch == 0 || !sharding) return operations::dropout(x, part.dropout, key);
  // The same elements fall on any mesh: each run of input features by its place in the whole.
  const BatchPart& own = forward->part;
  std::vector<at::Tensor> pieces;
  int64_t begin = 0;
  for (const Interval& features : sharding->computed()[1]) {
    const Region region{{own.given_batch, own.given_tokens, base_.in_features()},
                        {own.first_row, own.first_token, features.begin}};
    pieces.push_back(operations::dropout(x.narrow(2, begin, features.size()), part.dropout, key, &region));
    begin += features.size();
  }
  return pieces.size() == 1 ? pieces[0] : pieces.empty() ? x : at::cat(pieces, 2);
}

at::Tensor LoraLinear::operator()(const at::Tensor& x, const at::Tensor& y) const {
  at::Tensor result = y;
  for (const LoraPart& part : parts_) {
    const Factors f = factors(part, x.scalar_type());
    const at::Tensor dropped = drop(x, part);
    const at::Tensor term = at::linear(at::linear(dropped, f.a), f.b) * part.scaling;
    if (!f.magnitude.defined()) {
      result = result + term;
      continue;
    }
    const at::Tensor base = base_matrix(base_, x.scalar_type());
    const at::Tensor factor = row_factor(part, f, base);
    const at::Tensor own = dropped.is_same(x) ? result : at::linear(dropped, base);
    result = result + (factor - 1) * own + factor * term;
  }
  return result;
}

at::Tensor LoraLinear::merged(const at::Tensor& matrix) const {
  at::Tensor result = matrix;
  for (const LoraPart& part : parts_) {
    const Factors f = factors(part, matrix.scalar_type());
    result = result + part.scaling * at::mm(f.b, f.a);
    if (f.magnitude.defined()) result = row_factor(part, f, matrix.detach()).unsqueeze(1) * result;
  }
  return result;
}

at::Tensor LoraEmbedding::operator()(const at::Tensor& ids, const at::Tensor& found) const {
  at::Tensor result = found;
  for (const LoraPart& part : parts_) {
    const auto factor = [&](const Parameter& p) {
      return collectives::gather_weight(p.value(), found.scalar_type(), p.sharding());
    };
    const at::Tensor columns = at::embedding(factor(*part.weights.a).t(), ids);
    result = result + at::linear(columns, factor(*part.weights.b)) * part.scaling;
  }
  return result;
}

at::Tensor merge_part(const at::Tensor& matrix, const at::Tensor& base, const at::Tensor& a, const at::Tensor& b,
                      const at::Tensor& magnitude, double scaling) {
  const at::Tensor delta = scaling * at::mm(b, a);
  if (!magnitude.defined()) return matrix + delta;
  const at::Tensor norm = at::linalg_vector_norm(base + delta, 2, at::IntArrayRef{1});
  return (magnitude / norm).unsqueeze(1) * (matrix + delta);
}

}  // namespace easydel
