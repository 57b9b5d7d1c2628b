#include "easydel/layers/linear.h"

#include <c10/core/InferenceMode.h>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cuda/rows/row_products.h"
#include "easydel/sharding/collectives/collectives.h"

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
  return is_adapted() ? adapter_->merged(matrix) : matrix;
}

namespace {

// The codes, if products with x are computed from them directly, without a gradient; else null.
const operations::PackedCodes* readable_codes(const at::Tensor& x, const std::shared_ptr<const PackedWeight>& packed) {
  if (!packed || (at::GradMode::is_enabled() && x.requires_grad()) || operations::inside_checkpoint()) return nullptr;
  const operations::PackedCodes* codes = packed->codes();
  return codes && operations::can_multiply_packed(x, *codes) ? codes : nullptr;
}

// Only generation, and the fused step of one token, rounds x: elsewhere results are those of the weights that codes
// stand for.
operations::Activations activations_for(const operations::PackedCodes& codes) {
  return c10::InferenceMode::is_enabled() ? operations::activations_without_gradient(codes)
                                          : operations::Activations::kFloat;
}

}  // namespace

at::Tensor Linear::multiply(const at::Tensor& x) const {
  at::Tensor y;
  if (const auto* codes = readable_codes(x, packed_))
    y = operations::packed_product(x, *codes, {}, activations_for(*codes));
  else if (packed_)
    y = packed_->multiply(x, options_.name);
  else
    y = operations::linear(x, weight_->value(), {}, options_.name, {options_.transposed, weight_->sharding(), nullptr});
  return is_adapted() ? (*adapter_)(x, y) : y;
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

// The codes of all maps, if they can be multiplied in one loop with x in one form.
std::vector<operations::PackedMap> codes_of(const at::Tensor& x, const std::vector<const Linear*>& maps) {
  std::vector<operations::PackedMap> all;
  for (const Linear* linear : maps) {
    if (linear->is_adapted() || linear->bias()) return {};
    const operations::PackedCodes* codes = readable_codes(x, linear->packed());
    if (!codes) return {};
    all.push_back({codes});
    if (activations_for(*codes) != activations_for(*all[0].weight)) return {};
  }
  return all;
}

}  // namespace

std::vector<at::Tensor> Linear::apply_all(const at::Tensor& x, const std::vector<const Linear*>& maps) {
  if (const auto packed = codes_of(x, maps); !packed.empty())
    return operations::packed_products(x, packed, activations_for(*packed[0].weight));
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

std::optional<std::vector<at::Tensor>> Linear::apply_around(const at::Tensor& x, const std::vector<const Linear*>& maps,
                                                            const operations::AroundProducts& around) {
  if (!x.is_cuda()) return std::nullopt;
  for (const at::Tensor& t : {around.norm, around.residual}) {
    if (at::GradMode::is_enabled() && t.defined() && t.requires_grad()) return std::nullopt;
  }
  if (const auto packed = codes_of(x, maps); !packed.empty()) {
    std::vector<operations::cuda_fused::RowMap> rows;
    for (const operations::PackedMap& map : packed) rows.push_back({{}, map.weight});
    if (!operations::cuda_fused::can_multiply_rows(x, rows, around)) return std::nullopt;
    return operations::cuda_fused::multiply_rows(x, rows, around);
  }
  const std::vector<operations::LinearMap> given = plain_maps(maps);
  return given.empty() ? std::nullopt : operations::linears_around(x, given, around);
}

std::vector<operations::LinearMap> Linear::plain_maps(const std::vector<const Linear*>& maps) {
  std::vector<operations::LinearMap> given;
  for (const Linear* linear : maps) {
    if (!linear->is_plain() || !linear->split_over(linear->in_dim_.axis).empty()) return {};
    given.push_back(linear->map());
  }
  return given;
}

std::optional<operations::NormedLinears> Linear::apply_normed(const at::Tensor& x,
                                                              const std::vector<const Linear*>& maps,
                                                              const operations::AroundProducts& around) {
  if (!x.is_cuda()) return std::nullopt;
  const std::vector<operations::LinearMap> given = plain_maps(maps);
  return given.empty() ? std::nullopt : operations::normed_linears(x, around.norm, around.norm_options, given);
}

std::optional<at::Tensor> Linear::apply_gated(const std::vector<at::Tensor>& gated,
                                              const operations::Activation& act) const {
  if (!gated.front().is_cuda()) return std::nullopt;
  const std::vector<operations::LinearMap> given = plain_maps({this});
  return given.empty() ? std::nullopt : operations::gated_linear(gated, act, given.front());
}

namespace {

// Unsharded float32 values on the CPU, row by row.
const float* plain_floats(const std::shared_ptr<Parameter>& parameter) {
  if (!parameter || parameter->sharding()) return nullptr;
  const at::Tensor& value = parameter->value();
  return value.is_cpu() && value.scalar_type() == at::kFloat && value.is_contiguous() ? value.const_data_ptr<float>()
                                                                                      : nullptr;
}

}  // namespace

std::optional<operations::DecodeMap> Linear::decode_map() const {
  if (is_adapted() || parallel() || options_.transposed) return std::nullopt;
  operations::DecodeMap map{.rows = out_, .width = in_};
  if (packed_) {
    map.packed = packed_->codes();
    if (map.packed && !map.packed->codes.is_cpu()) return std::nullopt;
  } else {
    map.dense = plain_floats(weight_);
  }
  map.bias = plain_floats(bias_);
  if ((!map.packed && !map.dense) || (bias_ && !map.bias)) return std::nullopt;
  return map;
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
