#include "easydel/quantization/packed_experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct StackHolder : torch::CustomClassHolder {
  std::shared_ptr<const PackedStack> stack;
  std::vector<int64_t> ends;
};

// f(expert, first row, number of rows) for those that have rows.
template <class F>
void for_experts(const std::vector<int64_t>& ends, const F& f) {
  int64_t begin = 0;
  for (std::size_t e = 0; e < ends.size(); begin = ends[e], ++e) {
    if (ends[e] > begin) f(static_cast<int64_t>(e), begin, ends[e] - begin);
  }
}

at::Tensor multiply_rows(const PackedStack& stack, const at::Tensor& x, const std::vector<int64_t>& ends) {
  const LocalShard held = stack.held();
  const at::Tensor y = at::empty({x.size(0), held.row_count()}, x.options());
  for_experts(ends, [&](int64_t e, int64_t begin, int64_t count) {
    y.narrow(0, begin, count).copy_(stack.method().multiply(x.narrow(0, begin, count), PackedStack::expert(held, e)));
  });
  return y;
}

// Keeps nothing: backward makes the rows again, an expert and a chunk at a time.
struct PackedGroups : torch::autograd::Function<PackedGroups> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::shared_ptr<const PackedStack> stack,
                            std::vector<int64_t> ends) {
    auto holder = c10::make_intrusive<StackHolder>();
    holder->stack = stack;
    holder->ends = std::move(ends);
    ctx->saved_data["stack"] = c10::IValue::make_capsule(holder);
    return multiply_rows(*stack, x, holder->ends);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    operations::kernels::require_first_derivative("packed experts");
    const auto holder = c10::static_intrusive_pointer_cast<StackHolder>(ctx->saved_data["stack"].toCapsule());
    at::Tensor d_x;
    if (ctx->needs_input_grad(0)) {
      const LocalShard all = holder->stack->held();
      const at::Tensor d_y = grads[0];
      d_x = at::empty({d_y.size(0), all.column_count()}, d_y.options());
      for_experts(holder->ends, [&](int64_t e, int64_t begin, int64_t count) {
        const LocalShard held = PackedStack::expert(all, e);
        d_x.narrow(0, begin, count)
            .copy_(chunked_gradient(
                d_y.narrow(0, begin, count), held.row_count(), held.column_count(),
                [&](int64_t from, int64_t to) { return holder->stack->method().matrix(held, from, to); }));
      });
    }
    return {d_x, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

PackedStack::PackedStack(std::shared_ptr<const Method> method, const Experts& experts, const Experts::Stack& stack)
    : PackedParts(std::move(method), experts.experts_dim(), stack.out, stack.in),
      name_(stack.name),
      transposed_(stack.transposed),
      dense_(std::make_shared<Parameter>(stack.dense->dims, stack.dense->init)) {
  dense_->file_layout = stack.dense->file_layout;
}

std::string PackedStack::part_name(std::size_t part) const {
  const std::string& own = parts_[part].name;
  return own.starts_with("weight") ? name_ + own.substr(6) : concat(name_, ".", own);
}

void PackedStack::put_into(Module& module) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) module.set_parameter(part_name(i), parameters_[i]);
}

std::vector<at::Tensor> PackedStack::quantized_all(const std::function<at::Tensor(int64_t expert)>& dense) const {
  std::vector<at::Tensor> all;
  for (std::size_t p = 0; p < parts_.size(); ++p) all.push_back(at::empty(parameters_[p]->shape, parts_[p].dtype));
  for (int64_t e = 0; e < experts_->size; ++e) {
    const at::Tensor matrix = dense(e);
    const std::vector<at::Tensor> own = quantized(transposed_ ? matrix.t() : matrix, nullptr);
    for (std::size_t p = 0; p < own.size(); ++p) all[p].select(0, e).copy_(own[p]);
  }
  return all;
}

void PackedStack::fill(const Parameter& dense) const {
  const at::NoGradGuard no_grad;
  place_like(dense, transposed_);
  if (dense.is_lazy()) return;
  const at::Tensor whole = dense.whole();
  bind(quantized_all([&](int64_t e) { return whole.select(0, e); }), whole.device());
}

LocalShard PackedStack::expert(const LocalShard& all, int64_t place) {
  LocalShard held = all;
  for (at::Tensor& part : held.parts) part = part.select(0, place);
  return held;
}

at::Tensor PackedStack::multiply(const at::Tensor& x, const operations::Dispatch& dispatch) const {
  std::vector<int64_t> ends = dispatch.host_ends;
  if (ends.empty() && dispatch.num_experts > 0) {
    const at::Tensor known = dispatch.ends.to(at::kCPU, at::kLong).contiguous();
    ends.assign(known.const_data_ptr<int64_t>(), known.const_data_ptr<int64_t>() + known.numel());
  }
  if (at::GradMode::is_enabled() && x.requires_grad())
    return PackedGroups::apply(x.contiguous(), shared_from_this(), std::move(ends));
  return multiply_rows(*this, x.contiguous(), ends);
}

at::Tensor PackedStack::dequantize(DType dtype) const {
  const at::NoGradGuard no_grad;
  const LocalShard all = held();
  std::vector<at::Tensor> matrices;
  for (int64_t e = 0; e < all.parts[0].size(0); ++e) {
    const LocalShard one = expert(all, e);
    matrices.push_back(method_->matrix(one, 0, one.row_count()).to(dtype));
  }
  return matrices.empty() ? at::empty({0, all.row_count(), all.column_count()}, dtype) : at::stack(matrices);
}

}  // namespace easydel::quantization
