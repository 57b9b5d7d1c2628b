#include "easydel/operations/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct StorageHolder : torch::CustomClassHolder {
  LinearStorage storage;
};

// What is stored, gathered where it is a part and cast where it is of another type: the part is cast, not the whole.
Tensor usable(const Tensor& stored, const Tensor& x, const WeightAccessPtr& access) {
  return gather(stored, x.scalar_type(), access);
}
Tensor usable_weight(const Tensor& stored, const Tensor& x, const LinearStorage& storage) {
  const Tensor weight = usable(stored, x, storage.weight);
  return storage.transposed ? weight.t() : weight;
}

// [..., n] as [rows, n], n = 0 too.
Tensor rows_of(const Tensor& x) { return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2); }

// Saves the parameter as it is stored, and casts and gathers it again in backward: no second copy of the weights is
// held.
struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, std::string_view name, const LinearStorage& storage) {
    const Tensor bias = given_bias.value_or(Tensor());
    ctx->save_for_backward({x, weight, bias});
    auto holder = c10::make_intrusive<StorageHolder>();
    holder->storage = storage;
    ctx->saved_data["storage"] = c10::IValue::make_capsule(holder);
    return keep_dot(name, [&] {
      const Tensor used = usable_weight(weight, x, storage);
      require<ShapeError>(x.size(-1) == used.size(1), "[linear] x's last dimension must be the weight's second; got ",
                          x.sizes(), " and ", used.sizes(), ".");
      return at::linear(x, used, usable(bias, x, storage.bias));
    });
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("linear");
    const auto saved = ctx->get_saved_variables();
    const auto holder = c10::static_intrusive_pointer_cast<StorageHolder>(ctx->saved_data["storage"].toCapsule());
    const LinearStorage& storage = holder->storage;
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &d_y = grads[0];
    Tensor d_x, d_weight, d_bias;
    if (ctx->needs_input_grad(0)) d_x = at::matmul(d_y, usable_weight(weight, x, storage));
    const Tensor d_rows = rows_of(d_y);
    if (ctx->needs_input_grad(1)) {
      const Tensor rows = rows_of(x);
      d_weight = storage.transposed ? at::mm(rows.t(), d_rows) : at::mm(d_rows.t(), rows);
      d_weight = reduce(d_weight, storage.weight).to(weight.scalar_type());
    }
    if (bias.defined() && ctx->needs_input_grad(2)) {
      d_bias = reduce(d_rows.sum(0), storage.bias).to(bias.scalar_type());
    }
    return {d_x, d_weight, d_bias, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, std::string_view name,
              const LinearStorage& storage) {
  if (storage.weight || storage.bias) return Linear::apply(x, weight, kernels::as_optional(bias), name, storage);
  const Tensor used = storage.transposed ? weight.t() : weight;
  require<ShapeError>(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == used.size(1),
                      "[linear] x's last dimension must be the weight's second; got ", x.sizes(), " and ", used.sizes(),
                      ".");
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == used.size(0)), "[linear] bias must be [",
                      used.size(0), "]; got ", bias.defined() ? bias.sizes() : at::IntArrayRef{}, ".");
  const bool casts =
      weight.scalar_type() != x.scalar_type() || (bias.defined() && bias.scalar_type() != x.scalar_type());
  if (!casts && !inside_checkpoint()) return at::linear(x, used, bias);
  return Linear::apply(x, weight, kernels::as_optional(bias), name, storage);
}

}  // namespace easydel::operations
