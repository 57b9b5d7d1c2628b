#include "easydel/layers/attention/head_norm.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

using Over = HeadNormSpec::Over;

std::vector<Dim> weight_dims(Over over, Dim heads, int64_t head_dim) {
  if (over == Over::Head) return {head_dim};
  if (over == Over::EachHead) return {heads, head_dim};
  heads.size *= head_dim;
  heads.grain = head_dim;
  heads.segments = {heads.size};
  return {heads};
}

}  // namespace

HeadNorm::HeadNorm(const HeadNormSpec& spec, const Dim& heads, int64_t head_dim)
    : spec_(spec),
      features_(spec.over == Over::AllHeads ? heads.size * head_dim : head_dim),
      weight_(add_parameter("weight", weight_dims(spec.over, heads, head_dim),
                            {Initializer::Kind::Constant, 1 - spec.norm.weight_offset})) {}

at::Tensor HeadNorm::operator()(const at::Tensor& x, Interval counted) const {
  at::Tensor weight = collectives::gather_weight(weight_->value(), weight_->value().scalar_type(), weight_->sharding());
  const NormSpec& n = spec_.norm;
  const operations::RmsNormOptions rms{n.eps, n.weight_offset, n.multiply_before_cast};
  const bool is_rms = n.kind == NormSpec::Kind::Rms;
  if (spec_.over == Over::AllHeads) return over_all_heads(x, weight, counted);
  if (spec_.over == Over::Head) {
    // Each rank normalizes its own heads with the same weight.
    if (parallel())
      weight = collectives::identity_forward_sum_backward(weight, parallel()->group(split_over(LogicalAxis::Head)));
    return is_rms ? operations::rms_norm(x, weight, rms) : operations::layer_norm(x, weight, {}, n.eps);
  }
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  const at::Tensor normed =
      is_rms ? operations::rms_norm(wide, {}, {.eps = n.eps}) : operations::layer_norm(wide, {}, {}, n.eps);
  return (normed * (weight.to(x.scalar_type()).to(wide.scalar_type()) + n.weight_offset)).to(x.scalar_type());
}

at::Tensor HeadNorm::over_all_heads(const at::Tensor& x, const at::Tensor& weight, Interval counted) const {
  const NormSpec& n = spec_.norm;
  const AxisNames& axes = split_over(LogicalAxis::Head);
  if (axes.empty())
    return operations::rms_norm(x.flatten(-2), weight, {n.eps, n.weight_offset, n.multiply_before_cast}).view_as(x);
  // A rank has some heads of each token: squares are summed over ranks.
  const Group& group = parallel()->group(axes);
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  const at::Tensor squares = wide.narrow(2, counted.begin, counted.size()).square().sum({-2, -1}, /*keepdim=*/true);
  const at::Tensor mean = collectives::identity_forward_sum_backward(collectives::sum(squares, group), group) /
                          static_cast<double>(features_);
  const at::Tensor normed = wide * at::rsqrt(mean + n.eps);
  const at::Tensor factor = weight.to(x.scalar_type()).to(wide.scalar_type()).view({-1, x.size(-1)}) + n.weight_offset;
  return ((n.multiply_before_cast ? normed : normed.to(x.scalar_type())) * factor).to(x.scalar_type());
}

std::string HeadNorm::type_name() const { return spec_.norm.kind == NormSpec::Kind::Rms ? "RMSNorm" : "LayerNorm"; }

std::string HeadNorm::extra_repr() const {
  const std::string shape = spec_.over == Over::EachHead ? concat("(", weight_->shape[0], ", ", weight_->shape[1], ")")
                                                         : concat("(", weight_->shape[0], ",)");
  const bool is_rms = spec_.norm.kind == NormSpec::Kind::Rms;
  return concat(shape, ", eps=", spec_.norm.eps, is_rms ? "" : ", elementwise_affine=True, bias=False");
}

}  // namespace easydel
