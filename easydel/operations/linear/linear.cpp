#include "easydel/operations/linear/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "easydel/core/dtype.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/kernels/cuda/rows/row_products.h"
#include "easydel/operations/linear/product.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct StorageHolder : torch::CustomClassHolder {
  LinearStorage storage;
};

// Gathers and casts the stored weight as needed: the part is cast, not the full weight.
Tensor usable(const Tensor& stored, const Tensor& x, const WeightAccessPtr& access) {
  return gather(stored, x.scalar_type(), access);
}
Tensor usable_weight(const Tensor& stored, const Tensor& x, const LinearStorage& storage) {
  const Tensor weight = usable(stored, x, storage.weight);
  return storage.transposed ? weight.t() : weight;
}

// [..., n] as [rows, n], n = 0 too.
Tensor rows_of(const Tensor& x) { return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2); }

// Saves the parameter as stored, and casts and gathers it again in backward: there is no second copy of the weights.
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
      return dense_product(x, used, usable(bias, x, storage.bias));
    });
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("linear");
    const auto saved = ctx->get_saved_variables();
    const auto holder = c10::static_intrusive_pointer_cast<StorageHolder>(ctx->saved_data["storage"].toCapsule());
    const LinearStorage& storage = holder->storage;
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &d_y = grads[0];
    Tensor d_x, d_weight, d_bias;
    if (ctx->needs_input_grad(0)) d_x = dense_product(d_y, usable_weight(weight, x, storage).t());
    const Tensor d_rows = rows_of(d_y);
    if (ctx->needs_input_grad(1)) {
      const Tensor rows = rows_of(x);
      const Tensor left = storage.transposed ? rows.t() : d_rows.t(), right = storage.transposed ? d_rows : rows;
      // A GPU's product writes float32 itself.
      const bool widens = x.is_cuda() && !storage.weight && weight.scalar_type() == at::kFloat && x.element_size() == 2;
      d_weight = widens ? at::mm(left, right, at::kFloat) : matrix_product(left, right);
      d_weight = reduce(d_weight, storage.weight).to(weight.scalar_type());
    }
    if (bias.defined() && ctx->needs_input_grad(2)) {
      d_bias = reduce(d_rows.sum(0), storage.bias).to(bias.scalar_type());
    }
    return {d_x, d_weight, d_bias, Tensor(), Tensor()};
  }
};

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require<ShapeError>(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1),
                      "[linear] x's last dimension must be the weight's second; got ", x.sizes(), " and ",
                      weight.sizes(), ".");
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "[linear] bias must be [",
                      weight.size(0), "]; got ", bias.defined() ? bias.sizes() : at::IntArrayRef{}, ".");
}

// A matrix times a few vectors should be bound by memory bandwidth; torch's products are slower. Not differentiable.
constexpr int64_t kFewVectors = 4;

// For dense, unsharded weights of x's type, without gradient.
bool is_plain(const Tensor& x, const LinearMap& map) {
  return x.dim() >= 1 && x.size(-1) > 0 && !map.storage.transposed && !map.storage.weight && !map.storage.bias &&
         map.weight.scalar_type() == x.scalar_type() && map.weight.is_contiguous() &&
         (!map.bias.defined() || map.bias.scalar_type() == x.scalar_type()) && !inside_checkpoint() &&
         !(at::GradMode::is_enabled() &&
           (x.requires_grad() || map.weight.requires_grad() || (map.bias.defined() && map.bias.requires_grad())));
}

std::vector<cuda_fused::RowMap> row_maps(const std::vector<LinearMap>& maps) {
  std::vector<cuda_fused::RowMap> rows;
  for (const LinearMap& map : maps) rows.push_back({map.weight, nullptr, map.bias});
  return rows;
}

bool are_few_vectors(const Tensor& x, const std::vector<LinearMap>& maps) {
  if (!std::all_of(maps.begin(), maps.end(), [&](const LinearMap& map) { return is_plain(x, map); })) return false;
  if (x.is_cuda()) return cuda_fused::can_multiply_rows(x, row_maps(maps), {});
  return x.numel() <= kFewVectors * x.size(-1) && kernels::applies(x);
}

std::vector<Tensor> multiply_few_vectors(const Tensor& x, const std::vector<LinearMap>& maps) {
  if (x.is_cuda()) return cuda_fused::multiply_rows(x, row_maps(maps), {});
  const int64_t width = x.size(-1), vectors = x.numel() / width;
  const Tensor wide = x.to(acc_type(x.scalar_type())).contiguous();
  std::vector<Tensor> results;
  std::vector<kernels::GemvArgs> args;
  std::vector<int64_t> ends;
  int64_t rows = 0;
  for (const LinearMap& map : maps) {
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = map.weight.size(0);
    results.push_back(at::empty(shape, x.options()));
    args.push_back({map.weight.const_data_ptr(), wide.const_data_ptr(),
                    map.bias.defined() ? map.bias.const_data_ptr() : nullptr, results.back().mutable_data_ptr(), width,
                    vectors, map.weight.size(0)});
    ends.push_back(rows += map.weight.size(0));
  }
  const auto kernel = kernels::for_elements(x.scalar_type()).gemv;
  const auto multiply = [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (std::size_t i = 0; i < maps.size(); first = ends[i], ++i) {
      const int64_t from = std::max(begin, first), to = std::min(end, ends[i]);
      if (from < to) kernel(args[i], from - first, to - first);
    }
  };
  // In units, since memory serves some threads late.
  constexpr int64_t kUnitBytes = 128 << 10;
  const int64_t unit = std::max<int64_t>(1, kUnitBytes / (width * x.element_size()));
  for_units(static_cast<std::size_t>((rows + unit - 1) / unit), [&](std::size_t i) {
    const int64_t begin = static_cast<int64_t>(i) * unit;
    multiply(begin, std::min(rows, begin + unit));
  });
  return results;
}

}  // namespace

std::optional<std::vector<Tensor>> linears_around(const Tensor& x, const std::vector<LinearMap>& maps,
                                                  const AroundProducts& around) {
  for (const LinearMap& map : maps) {
    if (!is_plain(x, map)) return std::nullopt;
  }
  const std::vector<cuda_fused::RowMap> rows = row_maps(maps);
  if (!cuda_fused::can_multiply_rows(x, rows, around)) return std::nullopt;
  return cuda_fused::multiply_rows(x, rows, around);
}

std::vector<Tensor> linears(const Tensor& x, const std::vector<LinearMap>& maps) {
  if (are_few_vectors(x, maps)) {
    for (const LinearMap& map : maps) check_shapes(x, map.weight, map.bias);
    return multiply_few_vectors(x, maps);
  }
  std::vector<Tensor> results;
  if (x.is_cuda() && std::all_of(maps.begin(), maps.end(), [&](const LinearMap& m) { return is_plain(x, m); })) {
    for (const LinearMap& map : maps) {
      check_shapes(x, map.weight, map.bias);
      std::vector<int64_t> shape = x.sizes().vec();
      shape.back() = map.weight.size(0);
      results.push_back(at::empty(shape, x.options()));
    }
    cuda_fused::in_branches(x, static_cast<int64_t>(maps.size()), [&](int64_t i) {
      const LinearMap& map = maps[static_cast<std::size_t>(i)];
      at::linear_out(results[static_cast<std::size_t>(i)], x, map.weight, kernels::as_optional(map.bias));
    });
    return results;
  }
  for (const LinearMap& map : maps) results.push_back(linear(x, map.weight, map.bias, map.name, map.storage));
  return results;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, std::string_view name,
              const LinearStorage& storage) {
  if (storage.weight || storage.bias) return Linear::apply(x, weight, kernels::as_optional(bias), name, storage);
  const Tensor used = storage.transposed ? weight.t() : weight;
  check_shapes(x, used, bias);
  if (const std::vector<LinearMap> one{{weight, bias, name, storage}}; are_few_vectors(x, one))
    return multiply_few_vectors(x, one)[0];
  const bool casts =
      weight.scalar_type() != x.scalar_type() || (bias.defined() && bias.scalar_type() != x.scalar_type());
  const bool own = has_own_product(x, used);
  if (!casts && !inside_checkpoint() && !own) return at::linear(x, used, bias);
  if (own && is_plain(x, {weight, bias, name, storage})) return dense_product(x, used, bias);
  return Linear::apply(x, weight, kernels::as_optional(bias), name, storage);
}

}  // namespace easydel::operations
