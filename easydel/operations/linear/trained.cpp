#include "easydel/operations/linear/trained.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <string>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"

namespace easydel::operations {
using at::Tensor;

namespace trained {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool needs_gradient(const Tensor& t) { return t.defined() && t.requires_grad(); }

bool can_train(const Tensor& x, const std::vector<LinearMap>& maps) {
  return cuda_fused::applies(x) && x.dim() >= 2 && x.numel() > 0 &&
         std::all_of(maps.begin(), maps.end(), [&](const LinearMap& map) {
           return !map.storage.weight && !map.storage.bias && map.weight.dim() == 2 &&
                  at::isFloatingType(map.weight.scalar_type()) &&
                  map.weight.size(map.storage.transposed ? 0 : 1) == x.size(-1);
         });
}

// A checkpoint's first run, without gradients, does what the second does.
bool wants_graph(std::initializer_list<Tensor> inputs, const std::vector<LinearMap>& maps) {
  if (inside_checkpoint()) return true;
  return at::GradMode::is_enabled() && (std::any_of(inputs.begin(), inputs.end(), needs_gradient) ||
                                        std::any_of(maps.begin(), maps.end(), [](const LinearMap& map) {
                                          return needs_gradient(map.weight) || needs_gradient(map.bias);
                                        }));
}

// What the nodes know of their maps beside the weights and biases, which are saved as they are stored.
struct Maps : torch::CustomClassHolder {
  struct One {
    std::string name;
    bool transposed, has_bias;
  };
  std::vector<One> all;
  RmsNormOptions norm;
  const Activation* act = nullptr;
};

c10::intrusive_ptr<Maps> describe(const std::vector<LinearMap>& maps) {
  auto described = c10::make_intrusive<Maps>();
  for (const LinearMap& map : maps)
    described->all.push_back({std::string(map.name), map.storage.transposed, map.bias.defined()});
  return described;
}

// Weights, each followed by its bias if there is one.
variable_list parameters_of(const std::vector<LinearMap>& maps) {
  variable_list parameters;
  for (const LinearMap& map : maps) {
    parameters.push_back(map.weight);
    if (map.bias.defined()) parameters.push_back(map.bias);
  }
  return parameters;
}

Tensor weight_for(const Tensor& x, const Tensor& stored, const Maps::One& map) {
  const Tensor used = stored.to(x.scalar_type());
  return map.transposed ? used.t() : used;
}

Tensor rows_of(const Tensor& x) { return x.flatten(0, -2); }

// The gradient of a weight as it is stored; a product writes float32 itself.
Tensor weight_gradient(const Tensor& d_rows, const Tensor& rows, const Tensor& stored, const Maps::One& map) {
  const Tensor left = map.transposed ? rows.t() : d_rows.t(), right = map.transposed ? d_rows : rows;
  const bool widens = stored.is_cuda() && stored.scalar_type() == at::kFloat && rows.element_size() == 2;
  return (widens ? at::mm(left, right, at::kFloat) : at::mm(left, right)).to(stored.scalar_type());
}
Tensor bias_gradient(const Tensor& d_rows, const Tensor& stored) { return d_rows.sum(0).to(stored.scalar_type()); }

bool casts_first(const Tensor& x, const RmsNormOptions& options) {
  return !options.multiply_before_cast && x.element_size() == 2;
}

struct Normed : torch::autograd::Function<Normed> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& norm, at::TensorList parameters,
                               const c10::intrusive_ptr<Maps>& maps) {
    ctx->set_materialize_grads(false);
    const Tensor factor = norm.to(x.scalar_type()).contiguous();
    const RmsNormOptions& options = maps->norm;
    const auto [y, rstd] = cuda_fused::rms_norm(x, factor, options.eps, options.weight_offset, casts_first(x, options));
    variable_list saved{x, norm, factor, y, rstd}, results;
    std::size_t at = 0;
    for (const Maps::One& map : maps->all) {
      const Tensor &weight = parameters[at], bias = map.has_bias ? parameters[at + 1] : Tensor();
      results.push_back(keep_dot(map.name, [&, &y = y] {
        return at::linear(y, weight_for(x, weight, map),
                          kernels::as_optional(bias.defined() ? bias.to(x.scalar_type()) : bias));
      }));
      at += map.has_bias ? 2 : 1;
    }
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["maps"] = c10::IValue::make_capsule(maps);
    results.push_back(x.detach());
    return results;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("normed_linears");
    const auto saved = ctx->get_saved_variables();
    const auto maps = c10::static_intrusive_pointer_cast<Maps>(ctx->saved_data["maps"].toCapsule());
    const Tensor &x = saved[0], &norm = saved[1], &factor = saved[2], &rstd = saved[4];
    const Tensor rows = rows_of(saved[3]), d_residual = grads.back();
    const std::size_t first = 5;  // parameter
    const bool wants_rows = ctx->needs_input_grad(0) || ctx->needs_input_grad(1);
    Tensor d_rows;
    variable_list d_parameters;
    std::size_t at = 0;
    for (std::size_t i = 0; i < maps->all.size(); ++i) {
      const Maps::One& map = maps->all[i];
      const Tensor &weight = saved[first + at], d = grads[i].defined() ? rows_of(grads[i]) : Tensor();
      if (d.defined() && wants_rows) {
        const Tensor used = weight_for(x, weight, map);
        if (d_rows.defined())
          at::addmm_out(d_rows, d_rows, d, used);
        else
          d_rows = at::mm(d, used);
      }
      d_parameters.push_back(d.defined() && ctx->needs_input_grad(2 + at) ? weight_gradient(d, rows, weight, map)
                                                                          : Tensor());
      ++at;
      if (!map.has_bias) continue;
      const Tensor& bias = saved[first + at];
      d_parameters.push_back(d.defined() && ctx->needs_input_grad(2 + at) ? bias_gradient(d, bias) : Tensor());
      ++at;
    }
    Tensor d_x = d_residual, d_norm;
    if (d_rows.defined()) {
      std::tie(d_x, d_norm) =
          cuda_fused::rms_norm_backward(x, factor, d_rows.view(x.sizes()), rstd, maps->norm.weight_offset, d_residual);
      d_norm = d_norm.to(norm.scalar_type());
    }
    variable_list all{d_x, d_norm};
    all.insert(all.end(), d_parameters.begin(), d_parameters.end());
    all.emplace_back();
    return all;
  }
};

struct Halves {
  Tensor first, second;
  int64_t row;  // between rows of each
};
Halves halves_of(const Tensor& both) {
  const int64_t width = both.size(-1) / 2;
  return {both.narrow(-1, 0, width), both.narrow(-1, width, width), 2 * width};
}
Halves parts_of(at::TensorList gated) {
  return gated.size() == 1 ? halves_of(gated[0]) : Halves{gated[0], gated[1], gated[0].size(-1)};
}

struct GatedMap : torch::autograd::Function<GatedMap> {
  // Gate and up, or both in one; then the map's parameters.
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, int64_t parts,
                        const c10::intrusive_ptr<Maps>& maps) {
    const Maps::One& map = maps->all[0];
    const auto count = static_cast<std::size_t>(parts);
    const Halves given = parts_of(inputs.slice(0, count));
    const Tensor &weight = inputs[count], bias = map.has_bias ? inputs[count + 1] : Tensor();
    const auto type = given.first.scalar_type();
    ctx->save_for_backward({inputs.begin(), inputs.end()});
    ctx->saved_data["parts"] = parts;
    ctx->saved_data["maps"] = c10::IValue::make_capsule(maps);
    return keep_dot(map.name, [&] {
      const Tensor inner =
          cuda_fused::gate(given.first, given.second, given.row, given.row, maps->act->gated == GatedKernel::GeluTanh);
      return at::linear(inner, weight_for(inner, weight, map),
                        kernels::as_optional(bias.defined() ? bias.to(type) : bias));
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("gated_linear");
    const auto saved = ctx->get_saved_variables();
    const auto maps = c10::static_intrusive_pointer_cast<Maps>(ctx->saved_data["maps"].toCapsule());
    const Maps::One& map = maps->all[0];
    const auto count = static_cast<std::size_t>(ctx->saved_data["parts"].toInt());
    const Halves given = parts_of(at::TensorList(saved).slice(0, count));
    const Tensor &weight = saved[count], d_y = rows_of(grads[0]);
    Tensor inner = at::mm(d_y, weight_for(given.first, weight, map));  // its gradient, then itself
    variable_list d_inputs;
    for (std::size_t i = 0; i < count; ++i) d_inputs.push_back(at::empty(saved[i].sizes(), saved[i].options()));
    const Halves d = parts_of(d_inputs);
    cuda_fused::gate_backward(given.first, given.second, given.row, given.row, inner, d.first, d.second, d.row,
                              maps->act->gated == GatedKernel::GeluTanh, inner);
    d_inputs.push_back(ctx->needs_input_grad(count) ? weight_gradient(d_y, inner, weight, map) : Tensor());
    if (map.has_bias)
      d_inputs.push_back(ctx->needs_input_grad(count + 1) ? bias_gradient(d_y, saved[count + 1]) : Tensor());
    d_inputs.resize(d_inputs.size() + 2);
    return d_inputs;
  }
};

}  // namespace
}  // namespace trained

std::optional<NormedLinears> normed_linears(const Tensor& x, const Tensor& norm, const RmsNormOptions& options,
                                            const std::vector<LinearMap>& maps) {
  if (!trained::can_train(x, maps) || !trained::wants_graph({x, norm}, maps) || !norm.defined() || norm.dim() != 1 ||
      norm.size(0) != x.size(-1) || !cuda_fused::can_rms_norm_backward(x))
    return std::nullopt;
  const auto described = trained::describe(maps);
  described->norm = options;
  const torch::autograd::variable_list parameters = trained::parameters_of(maps);
  torch::autograd::variable_list results = trained::Normed::apply(x, norm, at::TensorList(parameters), described);
  const Tensor again = results.back();
  results.pop_back();
  return NormedLinears{results, again};
}

std::optional<Tensor> gated_linear(const std::vector<Tensor>& gated, const Activation& act, const LinearMap& map) {
  require<ShapeError>(gated.size() == 1 || gated.size() == 2,
                      "[gated_linear] gated must be gate and up, or both in one tensor; got ", gated.size(),
                      " tensors.");
  const auto is_dense = [](const Tensor& t) { return t.is_contiguous(); };
  if (act.gated == GatedKernel::None || !std::all_of(gated.begin(), gated.end(), is_dense)) return std::nullopt;
  if (gated.size() == 2 && (gated[0].sizes() != gated[1].sizes() || gated[0].scalar_type() != gated[1].scalar_type()))
    return std::nullopt;
  if (gated[0].dim() < 2 || gated[0].size(-1) % 2 != 0) return std::nullopt;
  const Tensor inner = gated.size() == 1 ? gated[0].narrow(-1, 0, gated[0].size(-1) / 2) : gated[0];
  if (!trained::can_train(inner, {map}) || !trained::wants_graph({gated.front(), gated.back()}, {map}))
    return std::nullopt;
  torch::autograd::variable_list inputs = gated;
  for (const Tensor& parameter : trained::parameters_of({map})) inputs.push_back(parameter);
  const auto described = trained::describe({map});
  described->act = &act;
  return trained::GatedMap::apply(at::TensorList(inputs), static_cast<int64_t>(gated.size()), described);
}

}  // namespace easydel::operations
