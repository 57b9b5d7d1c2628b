#include "easydel/layers/norm.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

at::Tensor stored_whole(const std::shared_ptr<Parameter>& p) {
  return p ? collectives::gather_weight(p->value(), p->value().scalar_type(), p->sharding()) : at::Tensor();
}

}  // namespace

const Norm* add_norm(Module& parent, const std::string& name, Dim features, const NormSpec& spec) {
  if (name.empty()) return nullptr;
  std::unique_ptr<Norm> norm;
  if (spec.kind == NormSpec::Kind::Layer)
    norm = std::make_unique<LayerNorm>(std::move(features), spec);
  else
    norm = std::make_unique<RMSNorm>(
        std::move(features), operations::RmsNormOptions{spec.eps, spec.weight_offset, spec.multiply_before_cast});
  const Norm* added = norm.get();
  parent.attach(name, std::move(norm));
  return added;
}

RMSNorm::RMSNorm(Dim features, operations::RmsNormOptions options)
    : options_(options),
      weight_(
          add_parameter("weight", {std::move(features)}, {Initializer::Kind::Constant, 1 - options.weight_offset})) {}

at::Tensor RMSNorm::operator()(const at::Tensor& x) const {
  return operations::rms_norm(x, stored_whole(weight_), options_);
}

std::optional<operations::DecodeNorm> RMSNorm::decode_norm() const {
  const at::Tensor& weight = weight_->value();
  if (options_.weight_offset != 0.0 || weight_->sharding() || !weight.is_cpu() || weight.scalar_type() != at::kFloat ||
      !weight.is_contiguous())
    return std::nullopt;
  return operations::DecodeNorm{weight.const_data_ptr<float>(), options_.eps};
}

bool RMSNorm::describe(operations::AroundProducts& around) const {
  if (weight_->sharding()) return false;
  around.norm = weight_->value();
  around.norm_options = options_;
  return true;
}

std::string RMSNorm::extra_repr() const { return concat("(", weight_->shape[0], ",), eps=", options_.eps); }

LayerNorm::LayerNorm(Dim features, const NormSpec& spec)
    : features_(features.size), eps_(spec.eps), weight_offset_(spec.weight_offset) {
  if (!spec.weight) return;
  weight_ = add_parameter("weight", {features}, {Initializer::Kind::Constant, 1 - spec.weight_offset});
  if (spec.bias) bias_ = add_parameter("bias", {features}, Initializer::zeros());
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  const at::Tensor weight = stored_whole(weight_);
  return operations::layer_norm(x, weight_offset_ == 0 ? weight : weight + weight_offset_, stored_whole(bias_), eps_);
}

std::string LayerNorm::extra_repr() const {
  return concat("(", features_, ",), eps=", eps_, ", elementwise_affine=", weight_ ? "True" : "False",
                ", bias=", bias_ ? "True" : "False");
}

}  // namespace easydel
