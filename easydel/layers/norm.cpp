#include "easydel/layers/norm.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives.h"

namespace easydel {
namespace {

at::Tensor stored_whole(const std::shared_ptr<Parameter>& p) {
  return p ? collectives::gather_weight(p->value(), p->value().scalar_type(), p->sharding()) : at::Tensor();
}

}  // namespace

RMSNorm::RMSNorm(Dim features, operations::RmsNormOptions options)
    : options_(options),
      weight_(
          add_parameter("weight", {std::move(features)}, {Initializer::Kind::Constant, 1 - options.weight_offset})) {}

at::Tensor RMSNorm::operator()(const at::Tensor& x) const {
  return operations::rms_norm(x, stored_whole(weight_), options_);
}

at::Tensor RMSNorm::operator()(const at::Tensor& x, const Group& parts) const {
  return operations::rms_norm(x, collectives::enter(stored_whole(weight_), parts), options_);
}

std::string RMSNorm::extra_repr() const { return concat("(", weight_->shape[0], ",), eps=", options_.eps); }

LayerNorm::LayerNorm(Dim features, double eps, bool bias)
    : eps_(eps), weight_(add_parameter("weight", {features}, Initializer::ones())) {
  if (bias) bias_ = add_parameter("bias", {features}, Initializer::zeros());
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return operations::layer_norm(x, stored_whole(weight_), stored_whole(bias_), eps_);
}

std::string LayerNorm::extra_repr() const {
  return concat("(", weight_->shape[0], ",), eps=", eps_, ", elementwise_affine=True, bias=", bias_ ? "True" : "False");
}

}  // namespace easydel
