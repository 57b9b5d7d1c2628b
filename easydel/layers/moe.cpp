// Letters: T tokens, E experts, D hidden, I intermediate.
#include "easydel/layers/moe.h"

#include "easydel/core/error.h"

namespace easydel {
Experts::Experts(ExpertsSpec spec) : spec_(std::move(spec)), act_(operations::find_activation(spec_.act)) {
  const int64_t experts = spec_.num_experts;
  const int64_t hidden = spec_.hidden_size;
  const int64_t inner = spec_.intermediate_size;
  const Initializer init = Initializer::normal(spec_.init_stddev);
  gate_up_proj_ = add_parameter("gate_up_proj", {experts, Dim(2 * inner, 1, {inner, inner}), hidden}, init);
  down_proj_ = add_parameter("down_proj", {experts, hidden, inner}, init);

  const auto one_by_one = [](const std::string& path, const Parameter& parameter,
                             const std::vector<std::string>& names) {
    const std::string parent = path.substr(0, path.rfind('.'));
    const int64_t rows = parameter.shape[1] / static_cast<int64_t>(names.size());
    const int64_t columns = parameter.shape[2];
    FileLayout layout;
    for (int64_t e = 0; e < parameter.shape[0]; ++e) {
      for (std::size_t n = 0; n < names.size(); ++n) {
        layout.push_back({concat(parent, ".", e, ".", names[n], ".weight"),
                          {e, static_cast<int64_t>(n) * rows, 0},
                          {1, rows, columns},
                          {rows, columns}});
      }
    }
    return layout;
  };
  gate_up_proj_->file_layout = [this, one_by_one](const std::string& path) {
    return one_by_one(path, *gate_up_proj_, {spec_.gate_name, spec_.up_name});
  };
  down_proj_->file_layout = [this, one_by_one](const std::string& path) {
    return one_by_one(path, *down_proj_, {spec_.down_name});
  };
}

at::Tensor Experts::operator()(const at::Tensor& x_TD, const operations::Routing& routing) const {
  const operations::Dispatch dispatch = operations::make_dispatch(routing.experts, spec_.num_experts);
  const at::Tensor rows = operations::dispatch_rows(x_TD, dispatch);
  const auto weight = [&](const std::shared_ptr<Parameter>& p) { return p->value().to(x_TD.scalar_type()); };
  const at::Tensor inner =
      operations::gated_activation(operations::grouped_linear(rows, weight(gate_up_proj_), {}, dispatch), act_);
  return operations::combine_rows(operations::grouped_linear(inner, weight(down_proj_), {}, dispatch), routing.weights,
                                  dispatch);
}

SparseMoE::SparseMoE(MoeSpec spec)
    : spec_(std::move(spec)),
      gate_(add<Linear>("gate", spec_.experts.hidden_size, spec_.experts.num_experts,
                        LinearOptions{.init_stddev = spec_.experts.init_stddev, .name = "moe_router"})),
      experts_(add<Experts>("experts", spec_.experts)) {}

double SparseMoE::own_flops_per_token(double) const {
  const ExpertsSpec& e = spec_.experts;
  return 6.0 * static_cast<double>(spec_.router.top_k * e.hidden_size * e.intermediate_size);
}

SparseMoE::Output SparseMoE::operator()(const at::Tensor& x) const {
  const at::Tensor x_TD = x.flatten(0, -2);
  const at::Tensor router_logits = gate_(x_TD);
  const at::Tensor out = experts_(x_TD, operations::route(router_logits, spec_.router));
  return {out.view_as(x), router_logits};
}

}  // namespace easydel
