// Letters: T tokens, E experts, D hidden.
#include "easydel/layers/moe/moe.h"

#include <ATen/ATen.h>

#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

SparseMoE::SparseMoE(MoeSpec spec)
    : spec_(std::move(spec)),
      gate_(add<Linear>(
          spec_.router_name, spec_.experts.hidden_size, spec_.experts.num_experts,
          LinearOptions{.bias = spec_.router_bias, .init_stddev = spec_.experts.init_stddev, .name = "moe_router"})),
      experts_(add<Experts>("experts", spec_.experts)) {
  if (spec_.selection_bias) {
    selection_bias_ = std::make_shared<Parameter>(std::vector<Dim>{spec_.experts.num_experts}, Initializer::zeros());
    selection_bias_->trainable = false;
    selection_bias_->fixed_dtype = float32;
    child(spec_.router_name)->set_parameter("e_score_correction_bias", selection_bias_);
  }
  if (spec_.shared_intermediate > 0) {
    shared_experts_ = &add<MLP>("shared_experts", MlpSpec{.hidden_size = spec_.experts.hidden_size,
                                                          .intermediate_size = spec_.shared_intermediate,
                                                          .act = spec_.experts.act,
                                                          .bias = spec_.shared_bias,
                                                          .init_stddev = spec_.experts.init_stddev});
  }
}

double SparseMoE::own_flops_per_token(double) const {
  const ExpertsSpec& e = spec_.experts;
  return 6.0 * static_cast<double>(spec_.router.top_k * e.hidden_size * e.intermediate_size);
}

SparseMoE::Output SparseMoE::operator()(const at::Tensor& x) const {
  const at::Tensor x_TD = x.flatten(0, -2);
  const bool widens = spec_.router_in_float32 && x_TD.scalar_type() != at::kDouble;
  const at::Tensor router_logits = gate_(widens ? x_TD.to(at::kFloat) : x_TD);
  operations::RouterOptions options = spec_.router;
  if (selection_bias_) {
    options.selection_bias = collectives::gather_weight(
        selection_bias_->value(), selection_bias_->value().scalar_type(), selection_bias_->sharding());
  }
  at::Tensor out = experts_(x_TD, operations::route(router_logits, options)).view_as(x);
  if (shared_experts_) out = out + (*shared_experts_)(x);
  return {out, router_logits};
}

}  // namespace easydel
