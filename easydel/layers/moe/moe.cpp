// Letters: T tokens, E experts, D hidden.
#include "easydel/layers/moe/moe.h"

#include <ATen/ATen.h>

#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

class Statics : public Module {};  // what a router has beside its weight

}  // namespace

SparseMoE::SparseMoE(MoeSpec spec)
    : spec_(std::move(spec)),
      gate_(add<Linear>(
          spec_.router_name, spec_.experts.hidden_size, spec_.experts.num_experts,
          LinearOptions{.bias = spec_.router_bias, .init_stddev = spec_.experts.init_stddev, .name = "moe_router"})),
      experts_(add<Experts>("experts", spec_.experts)) {
  if (!spec_.router_in_files.empty()) {
    Parameter& weight = *gate_.weight();
    weight.file_layout = [name = spec_.router_in_files, shape = weight.shape](const std::string& path) -> FileLayout {
      return {{path.substr(0, path.rfind('.') + 1) + name, {0, 0}, shape, shape}};
    };
  }
  if (spec_.selection_bias) {
    const bool own_module = !spec_.selection_bias_in.empty();
    const Dim experts(spec_.experts.num_experts);
    selection_bias_ = std::make_shared<Parameter>(own_module ? std::vector<Dim>{1, experts} : std::vector<Dim>{experts},
                                                  Initializer::zeros());
    selection_bias_->trainable = false;
    selection_bias_->fixed_dtype = float32;
    Module* owner = child(spec_.router_name);
    if (own_module) {
      owner->attach(spec_.selection_bias_in, std::make_unique<Statics>());
      owner = owner->child(spec_.selection_bias_in);
      selection_bias_->file_layout = [router = "." + spec_.router_name + ".",
                                      shape = selection_bias_->shape](const std::string& path) -> FileLayout {
        std::string name = path;
        name.replace(name.rfind(router), router.size(), ".");
        return {{name, {0, 0}, shape, shape}};
      };
    }
    owner->set_parameter("e_score_correction_bias", selection_bias_);
  }
  if (spec_.shared_intermediate > 0) {
    shared_experts_ = &add<MLP>(spec_.shared_name, MlpSpec{.hidden_size = spec_.experts.hidden_size,
                                                           .intermediate_size = spec_.shared_intermediate,
                                                           .act = spec_.experts.act,
                                                           .bias = spec_.shared_bias,
                                                           .init_stddev = spec_.experts.init_stddev});
    if (spec_.shared_gate) {
      shared_gate_ = &add<Linear>(spec_.shared_name + "_gate", spec_.experts.hidden_size, 1,
                                  LinearOptions{.init_stddev = spec_.experts.init_stddev, .name = "moe_shared_gate"});
    }
  }
}

double SparseMoE::own_flops_per_token(double) const {
  const ExpertsSpec& e = spec_.experts;
  return 6.0 * static_cast<double>(spec_.router.top_k * e.hidden_size * e.intermediate_size);
}

// Each token once for each of its experts, times the weight.
at::Tensor SparseMoE::run_weighed_inputs(const at::Tensor& x_TD, const operations::Routing& routing) const {
  const at::Tensor rows = (x_TD.unsqueeze(1) * routing.weights.to(x_TD.scalar_type()).unsqueeze(2)).flatten(0, 1);
  const at::Tensor ones = at::ones({rows.size(0), 1}, routing.weights.options());
  return experts_(rows, {ones, routing.experts.reshape({-1, 1})}).view({x_TD.size(0), -1, x_TD.size(1)}).sum(1);
}

std::optional<SparseMoE::Output> SparseMoE::add_fused(const at::Tensor& x, const Norm& norm) const {
  operations::AroundProducts before;
  if (!x.is_cuda() || parallel() || spec_.weigh_inputs || shared_experts_ || widens(x) || !norm.describe(before))
    return std::nullopt;
  const at::Tensor x_TD = x.flatten(0, -2);
  const auto logits = Linear::apply_around(x_TD, {&gate_}, before);
  if (!logits) return std::nullopt;
  operations::AroundProducts around = before;
  around.residual = x_TD;
  const operations::Routing routing = operations::route(logits->front(), router_options());
  const auto hidden = experts_.apply_around(x_TD, routing, around);
  if (!hidden) return std::nullopt;
  return Output{hidden->view_as(x), logits->front()};
}

SparseMoE::Output SparseMoE::add_to(const at::Tensor& x, const Norm& norm) const {
  if (std::optional<Output> done = add_fused(x, norm)) return *done;
  Output out = (*this)(norm(x));
  out.hidden = x + out.hidden;
  return out;
}

operations::RouterOptions SparseMoE::router_options() const {
  operations::RouterOptions options = spec_.router;
  if (selection_bias_) {
    options.selection_bias =
        collectives::gather_weight(selection_bias_->value(), selection_bias_->value().scalar_type(),
                                   selection_bias_->sharding())
            .flatten();
  }
  return options;
}

SparseMoE::Output SparseMoE::operator()(const at::Tensor& x) const {
  const at::Tensor x_TD = x.flatten(0, -2);
  const at::Tensor router_logits = gate_(widens(x) ? x_TD.to(at::kFloat) : x_TD);
  const operations::Routing routing = operations::route(router_logits, router_options());
  at::Tensor out = (spec_.weigh_inputs ? run_weighed_inputs(x_TD, routing) : experts_(x_TD, routing)).view_as(x);
  if (shared_experts_) {
    const at::Tensor shared = (*shared_experts_)(x);
    out = out + (shared_gate_ ? (*shared_gate_)(x).sigmoid() * shared : shared);
  }
  return {out, router_logits};
}

}  // namespace easydel
