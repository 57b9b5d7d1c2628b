// Letters: T tokens, E experts, D hidden, I intermediate.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;

at::Tensor whole(const Parameter& p, at::ScalarType dtype) {
  return collectives::gather_weight(p.value(), dtype, p.sharding());
}

}  // namespace

Experts::Experts(ExpertsSpec spec)
    : spec_(std::move(spec)),
      act_(operations::find_activation(spec_.act)),
      experts_(spec_.num_experts, LogicalAxis::Expert) {
  const Dim hidden(spec_.hidden_size), inner(spec_.intermediate_size, kInner);
  const Dim both =
      spec_.clamped_gate ? Dim(2 * spec_.intermediate_size, kInner, 2) : Dim::halves(spec_.intermediate_size, kInner);
  const auto add_stack = [&](const char* name, const Dim& out, const Dim& in, bool transposed) {
    const auto dims = transposed ? std::vector{experts_, in, out} : std::vector{experts_, out, in};
    stacks_.push_back(
        {name, out, in, transposed, add_parameter(name, dims, Initializer::normal(spec_.init_stddev)), nullptr});
  };
  add_stack("gate_up_proj", both, hidden, spec_.transposed);
  if (spec_.bias) gate_up_proj_bias_ = add_parameter("gate_up_proj_bias", {experts_, both}, Initializer::zeros());
  add_stack("down_proj", hidden, inner, transposed());
  if (spec_.bias) down_proj_bias_ = add_parameter("down_proj_bias", {experts_, hidden}, Initializer::zeros());
  if (!transposed()) name_in_files();
}

void Experts::set_packed(std::string_view name, std::shared_ptr<const PackedExperts> packed,
                         std::shared_ptr<Parameter> dense) {
  for (Stack& stack : stacks_) {
    if (stack.name != name) continue;
    stack.packed = std::move(packed);
    stack.dense = std::move(dense);
    set_parameter(stack.name, stack.dense);
  }
}

void Experts::name_in_files() {
  const auto one_by_one = [](const std::string& path, const std::vector<int64_t>& shape,
                             const std::vector<std::string>& names) {
    const std::string parent = path.substr(0, path.rfind('.'));
    const int64_t rows = shape[1] / static_cast<int64_t>(names.size());
    const int64_t columns = shape[2];
    FileLayout layout;
    for (int64_t e = 0; e < shape[0]; ++e) {
      for (std::size_t n = 0; n < names.size(); ++n) {
        layout.push_back({concat(parent, ".", e, ".", names[n], ".weight"),
                          {e, static_cast<int64_t>(n) * rows, 0},
                          {1, rows, columns},
                          {rows, columns}});
      }
    }
    return layout;
  };
  const auto store = [&](Parameter& stack, std::vector<std::string> names) {
    stack.file_layout = [one_by_one, shape = stack.shape, names = std::move(names)](const std::string& path) {
      return one_by_one(path, shape, names);
    };
  };
  const auto store_beside = [&](Parameter& stack, const std::string& stacked_name) {
    stack.file_layout = [shape = stack.shape, stacked_name](const std::string& path) -> FileLayout {
      const std::string experts = path.substr(0, path.rfind('.'));
      return {{concat(experts.substr(0, experts.rfind('.') + 1), stacked_name, ".weight"), {0, 0, 0}, shape, shape}};
    };
  };
  if (spec_.stacked_gate_up_name.empty()) {
    store(*stacks_[0].dense, {spec_.gate_name, spec_.up_name});
    store(*stacks_[1].dense, {spec_.down_name});
  } else {
    store_beside(*stacks_[0].dense, spec_.stacked_gate_up_name);
    store_beside(*stacks_[1].dense, spec_.stacked_down_name);
  }
}

at::Tensor Experts::gate(const at::Tensor& gate_up) const {
  return spec_.clamped_gate ? operations::clamped_gate(gate_up, *spec_.clamped_gate)
                            : operations::gated_activation(gate_up, act_);
}

at::Tensor Experts::gate_up_bias(at::ScalarType dtype) const {
  return gate_up_proj_bias_ ? whole(*gate_up_proj_bias_, dtype) : at::Tensor();
}

// Ranks that share the inner dimension each have a term of the result, so each adds a share.
at::Tensor Experts::down_bias(at::ScalarType dtype) const {
  if (!down_proj_bias_) return {};
  const at::Tensor bias = whole(*down_proj_bias_, dtype);
  if (!parallel() || parallel()->expert_inner().empty()) return bias;
  const Group& sharers = parallel()->group(parallel()->expert_inner());
  return collectives::identity_forward_sum_backward(bias, sharers) / sharers.size();
}

bool Experts::is_fused() const {
  return spec_.method == "fused_moe" && !transposed() && !spec_.bias && !spec_.clamped_gate && !is_packed();
}

std::optional<at::Tensor> Experts::apply_around(const at::Tensor& x_TD, const operations::Routing& routing,
                                                const operations::AroundProducts& around) const {
  if (parallel() || !is_fused()) return std::nullopt;
  return operations::experts_of_few_tokens(x_TD, routing, {stacks_[0].dense->value(), stacks_[1].dense->value(), &act_},
                                           around);
}

at::Tensor Experts::operator()(const at::Tensor& x_TD, const operations::Routing& routing) const {
  if (parallel()) return run_on_mesh(x_TD, routing);
  if (spec_.method == "dense_moe" && !is_packed()) return run_dense(x_TD, routing);
  const bool fused = is_fused();
  operations::StackedExperts stacked;
  if (fused) {
    stacked = {stacks_[0].dense->value(), stacks_[1].dense->value(), &act_};
    if (const auto done = operations::experts_of_few_tokens(x_TD, routing, stacked)) return *done;
  }
  const operations::Dispatch dispatch = operations::make_dispatch(routing.experts, spec_.num_experts);
  if (fused) return operations::fused_experts(x_TD, routing.weights, stacked, dispatch);
  return operations::combine_rows(run(operations::dispatch_rows(x_TD, dispatch), dispatch), routing.weights, dispatch);
}

at::Tensor Experts::run(const at::Tensor& rows, const operations::Dispatch& dispatch) const {
  const auto linear = [&](const at::Tensor& x, const Stack& stack, const at::Tensor& bias) {
    if (!stack.packed)
      return operations::grouped_linear(x, stack.dense->value(), bias, dispatch,
                                        {.transposed = stack.transposed, .access = stack.dense->sharding()});
    const at::Tensor y = stack.packed->multiply(x, dispatch);
    return bias.defined() ? y + bias.index_select(0, operations::expert_of_row(dispatch.ends, x.size(0))) : y;
  };
  const at::ScalarType dtype = rows.scalar_type();
  return linear(gate(linear(rows, stacks_[0], gate_up_bias(dtype))), stacks_[1], down_bias(dtype));
}

// The reference: [E, T, ...] throughout, and each token's experts selected from all of them.
at::Tensor Experts::run_dense(const at::Tensor& x_TD, const operations::Routing& routing) const {
  const auto multiply = [&](const at::Tensor& x, const Stack& stack, const at::Tensor& bias) {
    const at::Tensor matrices = whole(*stack.dense, x_TD.scalar_type());
    const at::Tensor y = at::matmul(x, stack.transposed ? matrices : matrices.transpose(1, 2));
    return bias.defined() ? y + bias.unsqueeze(1) : y;
  };
  const at::ScalarType dtype = x_TD.scalar_type();
  const at::Tensor gate_up = multiply(x_TD.unsqueeze(0), stacks_[0], gate_up_bias(dtype));
  const at::Tensor done_ETD = multiply(gate(gate_up), stacks_[1], down_bias(dtype));
  const at::Tensor weights_TE = at::zeros({x_TD.size(0), done_ETD.size(0)}, routing.weights.options())
                                    .scatter_add(1, routing.experts, routing.weights);
  return at::einsum("etd,te->td", {done_ETD, weights_TE.to(dtype)});
}

// Each row is sent to the rank that has its expert, and its result is returned. Over axes without tokens, ranks have
// the same rows: each takes those of its own experts, and the results are summed.
at::Tensor Experts::run_on_mesh(const at::Tensor& x_whole, const operations::Routing& routing) const {
  const Parallel& mesh = *parallel();
  const AxisNames& axes = mesh.axes(LogicalAxis::Expert);
  const AxisNames sent_over = common(axes, mesh.data()), repeated = without(axes, mesh.data());
  const Group& terms = mesh.group(with(repeated, mesh.expert_inner()));
  const Group& group = mesh.group(sent_over);
  const at::Tensor x_TD = collectives::identity_forward_sum_backward(x_whole, terms);
  const at::Tensor weights = collectives::identity_forward_sum_backward(routing.weights, terms).reshape({-1});

  // The member of the group that has each expert; none has those of ranks along the repeated axes.
  const Mesh& grid = mesh.mesh().mesh();
  const std::vector<int64_t> members = grid.group(sent_over, mesh.mesh().rank());
  std::vector<int64_t> owner(static_cast<std::size_t>(experts_.size), -1);
  std::vector<Interval> held;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Intervals part = experts_.part(grid.size(axes), grid.index_in_group(axes, members[m]));
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
  const at::Tensor own = at::tensor(arrived, at::kLong).view({-1, 1}).to(device);
  at::Tensor done;
  if (spec_.method == "dense_moe" && own_experts > 0 && !is_packed()) {
    done = run_dense(rows, {at::ones({rows.size(0), 1}, rows.options()), own});
  } else {
    const operations::Dispatch dispatch = operations::make_dispatch(own, own_experts);
    done = run(operations::dispatch_rows(rows, dispatch), dispatch).index_select(0, dispatch.inverse);
  }
  const at::Tensor back = collectives::all_to_all(done, out, in, group);
  const at::Tensor weighted = back * weights.index_select(0, picked).to(back.scalar_type()).unsqueeze(1);
  return collectives::sum(at::zeros_like(x_TD).index_add(0, tokens, weighted), terms);
}

}  // namespace easydel
