#include "easydel/layers/linear.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives.h"

namespace easydel {

Linear::Linear(Dim in, Dim out, LinearOptions options)
    : options_(std::move(options)), in_(in.size), out_(out.size), in_axis_(in.axis) {
  const Dim bias_dim = out;
  std::vector<Dim> dims = options_.transposed ? std::vector<Dim>{in, out} : std::vector<Dim>{out, in};
  weight_ = add_parameter("weight", std::move(dims), Initializer::normal(options_.init_stddev));
  if (options_.bias) bias_ = add_parameter("bias", {bias_dim}, Initializer::zeros());
}

operations::LinearMap Linear::map() const {
  return {weight_->value(),
          bias_ ? bias_->value() : at::Tensor(),
          options_.name,
          {options_.transposed, weight_->sharding(), bias_ ? bias_->sharding() : nullptr}};
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  const auto [weight, bias, name, storage] = map();
  const AxisNames& terms = split_over(in_axis_);
  if (terms.empty()) return operations::linear(x, weight, bias, name, storage);
  const at::Tensor y = collectives::sum(operations::linear(x, weight, {}, name, storage), parallel()->group(terms));
  return bias_ ? y + collectives::gather_weight(bias, y.scalar_type(), bias_->sharding()) : y;
}

std::vector<at::Tensor> Linear::together(const at::Tensor& x, const std::vector<const Linear*>& maps) {
  std::vector<operations::LinearMap> given;
  std::vector<at::Tensor> results;
  for (const Linear* linear : maps) {
    if (!linear->split_over(linear->in_axis_).empty()) {
      for (const Linear* each : maps) results.push_back((*each)(x));
      return results;
    }
    given.push_back(linear->map());
  }
  return operations::linears(x, given);
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
