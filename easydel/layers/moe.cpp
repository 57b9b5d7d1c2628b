// Letters: T tokens, E experts, D hidden, I intermediate.
#include "easydel/layers/moe.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives.h"

namespace easydel {
namespace {

constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;

}  // namespace

Experts::Experts(ExpertsSpec spec) : spec_(std::move(spec)), act_(operations::find_activation(spec_.act)) {
  const int64_t experts = spec_.num_experts;
  const int64_t hidden = spec_.hidden_size;
  const int64_t inner = spec_.intermediate_size;
  const Initializer init = Initializer::normal(spec_.init_stddev);
  gate_up_proj_ =
      add_parameter("gate_up_proj", {Dim(experts, LogicalAxis::Expert), Dim::halves(inner, kInner), hidden}, init);
  down_proj_ = add_parameter("down_proj", {Dim(experts, LogicalAxis::Expert), hidden, Dim(inner, kInner)}, init);

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
  if (parallel()) return run_on_mesh(x_TD, routing);
  const operations::Dispatch dispatch = operations::make_dispatch(routing.experts, spec_.num_experts);
  return operations::combine_rows(run(operations::dispatch_rows(x_TD, dispatch), dispatch), routing.weights, dispatch);
}

at::Tensor Experts::run(const at::Tensor& rows, const operations::Dispatch& dispatch) const {
  const auto linear = [&](const at::Tensor& x, const std::shared_ptr<Parameter>& p) {
    return operations::grouped_linear(x, p->value(), {}, dispatch, {}, p->sharding());
  };
  return linear(operations::gated_activation(linear(rows, gate_up_proj_), act_), down_proj_);
}

// Each row goes to the rank that has its expert, and its result comes back. Over axes that carry no tokens, ranks have
// the same rows: each takes those of its own experts, and the results are summed.
at::Tensor Experts::run_on_mesh(const at::Tensor& x_whole, const operations::Routing& routing) const {
  const Parallel& mesh = *parallel();
  const AxisNames& axes = mesh.axes(LogicalAxis::Expert);
  const AxisNames sent_over = common(axes, mesh.data()), repeated = without(axes, mesh.data());
  const Group& terms = mesh.group(with(repeated, mesh.expert_inner()));
  const Group& group = mesh.group(sent_over);
  const at::Tensor x_TD = collectives::enter(x_whole, terms);
  const at::Tensor weights = collectives::enter(routing.weights, terms).reshape({-1});

  // Which member of the group has each expert; none has those of ranks along the repeated axes.
  const Mesh& grid = mesh.mesh().mesh();
  const std::vector<int64_t> members = grid.group(sent_over, mesh.mesh().rank());
  const Dim& dim = gate_up_proj_->dims[0];
  std::vector<int64_t> owner(static_cast<std::size_t>(dim.size), -1);
  std::vector<Interval> held;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Intervals part = dim.part(grid.size(axes), grid.index_in_group(axes, members[m]));
    held.push_back(part.empty() ? Interval{} : part[0]);
    for (int64_t e = held[m].begin; e < held[m].end; ++e) owner[static_cast<std::size_t>(e)] = static_cast<int64_t>(m);
  }

  // (token, slot) pairs sorted by expert are sorted by owner too.
  const at::Tensor experts = routing.experts.reshape({-1}).to(at::kCPU);
  const at::Tensor order = at::argsort(experts, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const int64_t top_k = routing.experts.size(1);
  const int64_t* expert_of = experts.const_data_ptr<int64_t>();
  const at::Tensor counts = at::zeros({group.size(), spec_.num_experts}, at::kLong);
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < order.numel(); ++i) {
    const int64_t pair = order.const_data_ptr<int64_t>()[i];
    const int64_t member = owner[static_cast<std::size_t>(expert_of[pair])];
    if (member < 0) continue;
    pairs.push_back(pair);
    ++counts.mutable_data_ptr<int64_t>()[member * spec_.num_experts + expert_of[pair]];
  }
  const std::vector<int64_t> ones(members.size(), 1);
  const at::Device device = x_TD.device();
  const at::Tensor arriving = group.all_to_all(counts.to(device), ones, ones).to(at::kCPU);
  std::vector<int64_t> in, out, arrived;
  for (int64_t m = 0; m < group.size(); ++m) {
    in.push_back(counts[m].sum().item<int64_t>());
    out.push_back(arriving[m].sum().item<int64_t>());
    const Interval& own = held[static_cast<std::size_t>(group.rank())];
    for (int64_t e = own.begin; e < own.end; ++e) {
      arrived.insert(arrived.end(), static_cast<std::size_t>(arriving[m][e].item<int64_t>()), e - own.begin);
    }
  }

  const at::Tensor picked = at::tensor(pairs, at::kLong).to(device);
  const at::Tensor tokens = at::div(picked, top_k, "floor");
  const at::Tensor rows = collectives::all_to_all(x_TD.index_select(0, tokens), in, out, group);
  const int64_t own_experts = held[static_cast<std::size_t>(group.rank())].size();
  const operations::Dispatch dispatch =
      operations::make_dispatch(at::tensor(arrived, at::kLong).view({-1, 1}).to(device), own_experts);
  const at::Tensor done = run(operations::dispatch_rows(rows, dispatch), dispatch).index_select(0, dispatch.inverse);
  const at::Tensor back = collectives::all_to_all(done, out, in, group);
  const at::Tensor weighted = back * weights.index_select(0, picked).to(back.scalar_type()).unsqueeze(1);
  return collectives::sum(at::zeros_like(x_TD).index_add(0, tokens, weighted), terms);
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
