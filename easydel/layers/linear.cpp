#include "easydel/layers/linear.h"

#include "easydel/core/error.h"
#include "easydel/operations/linear.h"
#include "easydel/sharding/collectives.h"

namespace easydel {

Linear::Linear(Dim in, Dim out, LinearOptions options)
    : options_(std::move(options)), in_(in.size), out_(out.size), in_axis_(in.axis) {
  const Dim bias_dim = out;
  std::vector<Dim> dims = options_.transposed ? std::vector<Dim>{in, out} : std::vector<Dim>{out, in};
  weight_ = add_parameter("weight", std::move(dims), Initializer::normal(options_.init_stddev));
  if (options_.bias) bias_ = add_parameter("bias", {bias_dim}, Initializer::zeros());
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  const operations::LinearStorage storage{options_.transposed, weight_->sharding(),
                                          bias_ ? bias_->sharding() : nullptr};
  const at::Tensor bias = bias_ ? bias_->value() : at::Tensor();
  const AxisNames& terms = split_over(in_axis_);
  if (terms.empty()) return operations::linear(x, weight_->value(), bias, options_.name, storage);
  const at::Tensor y =
      collectives::sum(operations::linear(x, weight_->value(), {}, options_.name, storage), parallel()->group(terms));
  return bias_ ? y + collectives::gather_weight(bias, y.scalar_type(), bias_->sharding()) : y;
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
