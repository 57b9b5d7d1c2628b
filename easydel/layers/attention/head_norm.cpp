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
    : spec_(spec), heads_(heads), features_(spec.over == Over::AllHeads ? heads.size * head_dim : head_dim) {
  if (spec.over == Over::OneByOne) {
    auto& norms = add<ModuleList<LayerNorm>>("norms");
    for (int64_t i = 0; i < heads.size; ++i) norms.append(Dim(head_dim), spec.norm.eps, /*bias=*/false);
    norms_ = &norms;
    return;
  }
  weight_ = add_parameter("weight", weight_dims(spec.over, heads, head_dim),
                          {Initializer::Kind::Constant, 1 - spec.norm.weight_offset});
  if (spec.over == Over::Head && spec.norm.kind == NormSpec::Kind::Layer && spec.norm.bias)
    bias_ = add_parameter("bias", {head_dim}, Initializer::zeros());
}

// [heads of this rank, H]
at::Tensor HeadNorm::weight_of_heads() const {
  if (!norms_) return collectives::gather_weight(weight_->value(), weight_->value().scalar_type(), weight_->sharding());
  std::vector<at::Tensor> each;
  for (const LayerNorm* norm : *norms_) {
    const Parameter& weight = *norm->weight();
    each.push_back(collectives::gather_weight(weight.value(), weight.value().scalar_type(), weight.sharding()));
  }
  at::Tensor all = at::stack(each);
  if (!parallel()) return all;
  // Every rank has the norms of all heads, and uses those of its own.
  const AxisNames& axes = split_over(LogicalAxis::Head);
  all = collectives::identity_forward_sum_backward(all, parallel()->group(axes));
  std::vector<at::Tensor> own;
  for (const Interval& part : heads_.part(parallel()->mesh().size(axes), parallel()->mesh().index(axes)))
    own.push_back(all.narrow(0, part.begin, part.size()));
  return own.empty() ? all.narrow(0, 0, 0) : at::cat(own);
}

at::Tensor HeadNorm::operator()(const at::Tensor& x, Interval counted) const {
  at::Tensor weight = weight_of_heads();
  const NormSpec& n = spec_.norm;
  const operations::RmsNormOptions rms{n.eps, n.weight_offset, n.multiply_before_cast};
  const bool is_rms = n.kind == NormSpec::Kind::Rms;
  if (spec_.over == Over::AllHeads) return over_all_heads(x, weight, counted);
  if (spec_.over == Over::Head) {
    // Each rank normalizes its own heads with the same weight.
    at::Tensor bias;
    if (bias_) bias = collectives::gather_weight(bias_->value(), bias_->value().scalar_type(), bias_->sharding());
    if (parallel()) {
      const Group& sharers = parallel()->group(split_over(LogicalAxis::Head));
      weight = collectives::identity_forward_sum_backward(weight, sharers);
      if (bias_) bias = collectives::identity_forward_sum_backward(bias, sharers);
    }
    return is_rms ? operations::rms_norm(x, weight, rms) : operations::layer_norm(x, weight, bias, n.eps);
  }
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  const at::Tensor normed =
      is_rms ? operations::rms_norm(wide, {}, {.eps = n.eps}) : operations::layer_norm(wide, {}, {}, n.eps);
  return (normed * (weight.to(x.scalar_type()).to(wide.scalar_type()) + n.weight_offset)).to(x.scalar_type());
}

std::optional<std::pair<at::Tensor, operations::RmsNormOptions>> HeadNorm::plain_rms() const {
  const NormSpec& n = spec_.norm;
  if (spec_.over != Over::Head || n.kind != NormSpec::Kind::Rms || parallel() || weight_->sharding())
    return std::nullopt;
  return std::pair(weight_->value(), operations::RmsNormOptions{n.eps, n.weight_offset, n.multiply_before_cast});
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

std::string HeadNorm::type_name() const {
  if (norms_) return "LayerNormPerHead";
  return spec_.norm.kind == NormSpec::Kind::Rms ? "RMSNorm" : "LayerNorm";
}

std::string HeadNorm::extra_repr() const {
  if (norms_) return "";
  const std::string shape = spec_.over == Over::EachHead ? concat("(", weight_->shape[0], ", ", weight_->shape[1], ")")
                                                         : concat("(", weight_->shape[0], ",)");
  const bool is_rms = spec_.norm.kind == NormSpec::Kind::Rms;
  return concat(shape, ", eps=", spec_.norm.eps,
                is_rms ? std::string() : concat(", elementwise_affine=True, bias=", bias_ ? "True" : "False"));
}

}  // namespace easydel
