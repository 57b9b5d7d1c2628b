#include "easydel/sharding/collectives/collectives.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace easydel::collectives {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Groups and accesses outlive the graph: the model or its mesh owns them.
const Group& group_of(AutogradContext* ctx) {
  return *reinterpret_cast<const Group*>(ctx->saved_data["group"].toInt());
}
void keep(AutogradContext* ctx, const Group* group) { ctx->saved_data["group"] = reinterpret_cast<int64_t>(group); }

Tensor summed(const Tensor& x, const Group& group) {
  Tensor sum = x.detach().clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum);
  return sum;
}

struct IdentityForwardSumBackward : torch::autograd::Function<IdentityForwardSumBackward> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Group* group) {
    keep(ctx, group);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {summed(grads[0], group_of(ctx)), Tensor()};
  }
};

struct Sum : torch::autograd::Function<Sum> {
  static Tensor forward(AutogradContext*, const Tensor& x, const Group* group) { return summed(x, *group); }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0], Tensor()}; }
};

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t dim, const std::vector<int64_t>& sizes,
                        const Group* group) {
    int64_t begin = 0;
    for (int64_t r = 0; r < group->rank(); ++r) begin += sizes[static_cast<std::size_t>(r)];
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["begin"] = begin;
    ctx->saved_data["size"] = x.size(dim);
    std::vector<int64_t> counts;
    std::vector<std::vector<int64_t>> shapes;
    for (const int64_t size : sizes) {
      shapes.push_back(x.sizes().vec());
      shapes.back()[static_cast<std::size_t>(dim)] = size;
      counts.push_back(c10::multiply_integers(shapes.back()));
    }
    std::vector<Tensor> parts = group->all_gather(x.detach().contiguous(), counts);
    for (std::size_t r = 0; r < parts.size(); ++r) parts[r] = parts[r].view(shapes[r]);
    return at::cat(parts, dim);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0].narrow(ctx->saved_data["dim"].toInt(), ctx->saved_data["begin"].toInt(),
                            ctx->saved_data["size"].toInt()),
            Tensor(), Tensor(), Tensor()};
  }
};

struct AllToAll : torch::autograd::Function<AllToAll> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const std::vector<int64_t>& in_splits,
                        const std::vector<int64_t>& out_splits, const Group* group) {
    keep(ctx, group);
    ctx->saved_data["in"] = in_splits;
    ctx->saved_data["out"] = out_splits;
    return group->all_to_all(rows.detach().contiguous(), in_splits, out_splits);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto in = ctx->saved_data["in"].toIntVector(), out = ctx->saved_data["out"].toIntVector();
    return {group_of(ctx).all_to_all(grads[0].contiguous(), out, in), Tensor(), Tensor(), Tensor()};
  }
};

struct AccessHolder : torch::CustomClassHolder {
  operations::WeightAccessPtr access;
};

struct GatherWeight : torch::autograd::Function<GatherWeight> {
  static Tensor forward(AutogradContext* ctx, const Tensor& part, at::ScalarType dtype,
                        const operations::WeightAccessPtr& access) {
    ctx->saved_data["dtype"] = static_cast<int64_t>(part.scalar_type());
    auto holder = c10::make_intrusive<AccessHolder>();
    holder->access = access;
    ctx->saved_data["access"] = c10::IValue::make_capsule(holder);
    const Tensor gathered = access->gather(part, dtype);
    return gathered.is_alias_of(part) ? gathered.clone() : gathered;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto holder = c10::static_intrusive_pointer_cast<AccessHolder>(ctx->saved_data["access"].toCapsule());
    const auto dtype = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
    return {holder->access->reduce(grads[0].contiguous()).to(dtype), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor identity_forward_sum_backward(const Tensor& x, const Group& group) {
  return group.size() == 1 ? x : IdentityForwardSumBackward::apply(x, &group);
}

Tensor sum(const Tensor& x, const Group& group) { return group.size() == 1 ? x : Sum::apply(x, &group); }

Tensor gather(const Tensor& x, int64_t dim, const std::vector<int64_t>& sizes, const Group& group) {
  return group.size() == 1 ? x : Gather::apply(x, dim < 0 ? dim + x.dim() : dim, sizes, &group);
}

Tensor all_to_all(const Tensor& rows, const std::vector<int64_t>& in_splits, const std::vector<int64_t>& out_splits,
                  const Group& group) {
  return group.size() == 1 ? rows : AllToAll::apply(rows, in_splits, out_splits, &group);
}

Tensor gather_weight(const Tensor& part, at::ScalarType dtype, const operations::WeightAccessPtr& access) {
  return access ? GatherWeight::apply(part, dtype, access) : part.to(dtype);
}

}  // namespace easydel::collectives
