#include "easydel/layers/linear.h"

#include "easydel/core/error.h"
#include "easydel/operations/linear.h"

namespace easydel {

Linear::Linear(Dim in, Dim out, LinearOptions options) : options_(std::move(options)), in_(in.size), out_(out.size) {
  const Dim bias_dim = out;
  std::vector<Dim> dims = options_.transposed ? std::vector<Dim>{in, out} : std::vector<Dim>{out, in};
  weight_ = add_parameter("weight", std::move(dims), Initializer::normal(options_.init_stddev));
  if (options_.bias) bias_ = add_parameter("bias", {bias_dim}, Initializer::zeros());
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  const at::Tensor weight = options_.transposed ? weight_->value().t() : weight_->value();
  return operations::linear(x, weight, bias_ ? bias_->value() : at::Tensor(), options_.name);
}

void Linear::tie_weight(const std::shared_ptr<Parameter>& weight) {
  tie_parameter("weight", weight);
  weight_ = weight;
}

std::string Linear::extra_repr() const {
  if (options_.transposed) return concat("nf=", out_, ", nx=", in_);
  return concat("in_features=", in_, ", out_features=", out_, ", bias=", bias_ ? "True" : "False");
}

}  // namespace easydel
