#include "easydel/layers/linear.h"

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/sharding/collectives.h"

namespace easydel {

Linear::Linear(Dim in, Dim out, LinearOptions options)
    : options_(std::move(options)), in_dim_(in), out_dim_(out), in_(in.size), out_(out.size) {
  std::vector<Dim> dims = options_.transposed ? std::vector<Dim>{in, out} : std::vector<Dim>{out, in};
  weight_ = add_parameter("weight", std::move(dims), Initializer::normal(options_.init_stddev));
  if (options_.bias) bias_ = add_parameter("bias", {out}, Initializer::zeros());
}

void Linear::set_packed(std::shared_ptr<const PackedWeight> packed, std::shared_ptr<Parameter> dense) {
  packed_ = std::move(packed);
  weight_ = std::move(dense);
  set_parameter("weight", weight_);
}

operations::LinearMap Linear::map() const {
  return {weight_->value(),
          bias_ ? bias_->value() : at::Tensor(),
          options_.name,
          {options_.transposed, weight_->sharding(), bias_ ? bias_->sharding() : nullptr}};
}

at::Tensor Linear::matrix(DType dtype) const {
  at::Tensor matrix =
      packed_ ? packed_->dequantize(dtype) : collectives::gather_weight(weight_->value(), dtype, weight_->sharding());
  if (!packed_ && options_.transposed) matrix = matrix.t();
  return adapter_ ? adapter_->merged(matrix) : matrix;
}

at::Tensor Linear::multiply(const at::Tensor& x) const {
  at::Tensor y = packed_ ? packed_->multiply(x, options_.name)
                         : operations::linear(x, weight_->value(), {}, options_.name,
                                              {options_.transposed, weight_->sharding(), nullptr});
  return adapter_ ? (*adapter_)(x, y) : y;
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  const AxisNames& terms = split_over(in_dim_.axis);
  if (terms.empty() && is_plain()) {
    const auto [weight, bias, name, storage] = map();
    return operations::linear(x, weight, bias, name, storage);
  }
  at::Tensor y = multiply(x);
  if (!terms.empty()) y = collectives::sum(y, parallel()->group(terms));
  return bias_ ? y + collectives::gather_weight(bias_->value(), y.scalar_type(), bias_->sharding()) : y;
}

namespace {

// The codes of all maps, where they can be multiplied in one loop.
std::vector<operations::PackedCodes> codes_of(const at::Tensor& x, const std::vector<const Linear*>& maps) {
  std::vector<operations::PackedCodes> all;
  if (!x.is_cpu() || x.scalar_type() == at::kDouble || (at::GradMode::is_enabled() && x.requires_grad()) ||
      operations::inside_checkpoint())
    return {};
  for (const Linear* linear : maps) {
    if (linear->adapter() || linear->bias()) return {};
    std::optional<operations::PackedCodes> codes = linear->packed() ? linear->packed()->codes() : std::nullopt;
    if (!codes) return {};
    all.push_back(std::move(*codes));
  }
  return all;
}

}  // namespace

std::vector<at::Tensor> Linear::together(const at::Tensor& x, const std::vector<const Linear*>& maps) {
  if (const std::vector<operations::PackedCodes> codes = codes_of(x, maps); !codes.empty()) {
    std::vector<operations::PackedMap> packed;
    for (const operations::PackedCodes& each : codes) packed.push_back({&each});
    return operations::packed_products(x, packed);
  }
  std::vector<operations::LinearMap> given;
  std::vector<at::Tensor> results;
  for (const Linear* linear : maps) {
    if (!linear->is_plain() || !linear->split_over(linear->in_dim_.axis).empty()) {
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
