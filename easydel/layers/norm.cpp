#include "easydel/layers/norm.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives.h"

namespace easydel {

RMSNorm::RMSNorm(Dim features, operations::RmsNormOptions options)
    : options_(options),
      weight_(
          add_parameter("weight", {std::move(features)}, {Initializer::Kind::Constant, 1 - options.weight_offset})) {}

at::Tensor RMSNorm::operator()(const at::Tensor& x) const {
  return operations::rms_norm(x, collectives::gather_weight(weight_->value(), weight_->sharding()), options_);
}

std::string RMSNorm::extra_repr() const { return concat("(", weight_->shape[0], ",), eps=", options_.eps); }

LayerNorm::LayerNorm(Dim features, double eps, bool bias)
    : eps_(eps), weight_(add_parameter("weight", {features}, Initializer::ones())) {
  if (bias) bias_ = add_parameter("bias", {features}, Initializer::zeros());
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  const auto whole = [](const std::shared_ptr<Parameter>& p) {
    return p ? collectives::gather_weight(p->value(), p->sharding()) : at::Tensor();
  };
  return operations::layer_norm(x, whole(weight_), whole(bias_), eps_);
}

std::string LayerNorm::extra_repr() const {
  return concat("(", weight_->shape[0], ",), eps=", eps_, ", elementwise_affine=True, bias=", bias_ ? "True" : "False");
}

}  // namespace easydel
