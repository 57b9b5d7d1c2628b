// BaseModule taken apart and put together: initialisation, parameters, split and merge, dtypes.
#include <algorithm>
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/registry.h"

namespace easydel {
namespace {

std::string list_paths(const std::vector<std::string>& paths) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(paths.size(), kShown); ++i) text += concat(i ? ", " : "", paths[i]);
  if (paths.size() > kShown) text += concat(", … (", paths.size(), " in all)");
  return text;
}

// Without the paths that named_modules() makes.
template <class Visit>
void for_models_below(const Module& module, const Visit& visit) {
  for (const auto& [name, child] : module.children()) {
    if (auto* model = dynamic_cast<BaseModule*>(child.get())) visit(*model);
    for_models_below(*child, visit);
  }
}

}  // namespace

void BaseModule::share_options(const ModuleOptions& options) {
  options_ = options;
  for_models_below(*this, [&](BaseModule& model) { model.options_ = options; });
  set_dtype(options.dtype);
}

void BaseModule::set_options(const ModuleOptions& options) {
  share_options(options);
  for (const auto& [path, parameter] : named_parameters()) {
    const DType dtype = parameter->dtype_in(options.param_dtype);
    if (parameter->is_lazy() && parameter->value().scalar_type() != dtype) parameter->to_meta(dtype);
  }
}

void BaseModule::initialize(const ModuleOptions& options) {
  set_options(options);
  for (const auto& [path, parameter] : named_parameters()) {
    if (!parameter->is_lazy()) continue;
    const DType dtype = parameter->dtype_in(options.param_dtype);
    parameter->draw(options.rngs.fold(path), at::TensorOptions(dtype).device(options.device));
  }
}

bool BaseModule::is_lazy() const { return has_lazy_parameters(); }

DType BaseModule::module_dtype() const {
  for (const auto& [path, parameter] : named_parameters()) {
    if (parameter->fixed_dtype) continue;
    if (at::isFloatingType(parameter->value().scalar_type())) return parameter->value().scalar_type();
  }
  return options_.param_dtype;
}

TensorMap BaseModule::params() const {
  TensorMap map;
  for (const auto& [path, parameter] : named_parameters()) map.set(path, parameter->value());
  return map;
}

std::vector<ParameterInfo> BaseModule::graphtree_params_shape() const {
  std::vector<ParameterInfo> infos;
  for (const auto& [path, parameter] : named_parameters()) {
    infos.push_back({path, {parameter->shape, parameter->value().scalar_type()}, parameter->sharding()});
  }
  return infos;
}

int64_t BaseModule::num_params() const {
  int64_t sum = 0;
  for (const auto& [path, parameter] : named_parameters()) sum += c10::multiply_integers(parameter->shape);
  return sum;
}

GraphDef BaseModule::graphdef() const {
  return {config_,    model_task(),
          options_,   std::make_shared<const std::vector<ParameterInfo>>(graphtree_params_shape()),
          parallel(), transforms_,
          companions_};
}

void BaseModule::transform(std::shared_ptr<const ModuleTransform> transform) {
  transform->apply(*this);
  transforms_.push_back(std::move(transform));
}

void BaseModule::set_transforms(std::vector<std::shared_ptr<const ModuleTransform>> transforms) {
  transforms_ = std::move(transforms);
}

GraphOther BaseModule::graphother() const {
  GraphOther map;
  for (const auto& [path, tensor] : named_buffers()) map.set(path, *tensor);
  return map;
}

std::pair<GraphDef, GraphState> BaseModule::split_module() const {
  GraphState everything = params();
  for (const auto& [path, tensor] : graphother()) everything.set(path, tensor);
  return {graphdef(), std::move(everything)};
}

std::tuple<GraphDef, GraphState, GraphOther> BaseModule::split_module_parts() const {
  return {graphdef(), graphstate(), graphother()};
}

std::shared_ptr<BaseModule> BaseModule::merge_module(const GraphDef& graphdef, const GraphState& state,
                                                     const GraphOther& other) {
  std::shared_ptr<BaseModule> module = Registry::instance().make_module(*graphdef.config, graphdef.task);
  for (const auto& transform : graphdef.transforms) module->transform(transform);
  module->set_options(graphdef.options);
  module->set_companions(graphdef.companions);
  module->place_like(graphdef);
  GraphState params;
  const TensorMap own = module->params();
  GraphOther rest = other;
  for (const auto& [path, tensor] : state) own.contains(path) ? params.set(path, tensor) : rest.set(path, tensor);
  std::vector<std::string> missing;
  for (const auto& [path, tensor] : own) {
    if (!params.contains(path)) missing.push_back(path);
  }
  require<ConfigError>(missing.empty(), "[merge_module] these parameters are missing: ", list_paths(missing), ".");
  module->merge_params(params);
  std::vector<std::string> unknown;
  auto buffers = module->named_buffers();
  for (const auto& [path, tensor] : rest) {
    const auto found =
        std::find_if(buffers.begin(), buffers.end(), [&](const NamedBuffer& b) { return b.path == path; });
    if (found == buffers.end()) {
      unknown.push_back(path);
    } else {
      *found->tensor = tensor;
    }
  }
  require<ConfigError>(unknown.empty(), "[merge_module] ", module->type_name(), " has no ", list_paths(unknown), ".");
  return module;
}

void BaseModule::merge_params(const GraphState& params) {
  const std::vector<NamedParameter> own = named_parameters();
  std::unordered_map<std::string_view, Parameter*> by_path;  // only once they come in another order than the module's
  const auto find = [&](const std::string& path, std::size_t place) -> Parameter* {
    if (place < own.size() && own[place].path == path) return own[place].parameter.get();
    if (by_path.empty()) {
      for (const NamedParameter& named : own) by_path.emplace(named.path, named.parameter.get());
    }
    const auto found = by_path.find(path);
    return found == by_path.end() ? nullptr : found->second;
  };
  std::vector<std::pair<Parameter*, at::Tensor>> changes;
  std::vector<std::string> unknown;
  for (const auto& [path, tensor] : params) {
    Parameter* found = find(path, changes.size());
    if (!found) {
      unknown.push_back(path);
      continue;
    }
    const at::IntArrayRef shape(found->stored_shape());
    require<ShapeError>(tensor.sizes() == shape, "[merge_params] \"", path, "\" is ", shape, "; got ", tensor.sizes(),
                        ".");
    changes.emplace_back(found, tensor);
  }
  require<ConfigError>(unknown.empty(), "[merge_params] ", type_name(), " has no ", list_paths(unknown), ".");
  for (auto& [parameter, tensor] : changes) parameter->bind(tensor);
}

BaseModule& BaseModule::to_dtype(DType dtype) {
  const at::NoGradGuard no_grad;
  for (const auto& [path, parameter] : named_parameters()) {
    if (parameter->fixed_dtype) continue;
    if (at::isFloatingType(parameter->value().scalar_type())) parameter->bind(parameter->value().detach().to(dtype));
  }
  options_.param_dtype = dtype;
  share_options(options_);
  return *this;
}

BaseModule& BaseModule::half(bool change_runtime_dtype) {
  if (change_runtime_dtype) options_.dtype = float16;
  return to_dtype(float16);
}

BaseModule& BaseModule::float_(bool change_runtime_dtype) {
  if (change_runtime_dtype) options_.dtype = float32;
  return to_dtype(float32);
}

PureTransform::PureTransform(const BaseModule& module)
    : graphdef_(module.graphdef()), graphother_(module.graphother()) {}

ModelOutput PureTransform::operator()(const GraphState& params, const ModelInputs& inputs) const {
  return (*BaseModule::merge_module(graphdef_, params, graphother_))(inputs);
}

GraphState PureTransform::operator()(const TensorMap& torch_state_dict) const {
  std::shared_ptr<BaseModule> module = Registry::instance().make_module(*graphdef_.config, graphdef_.task);
  for (const auto& transform : graphdef_.transforms) module->transform(transform);
  module->set_options(graphdef_.options);
  module->place_like(graphdef_);
  return module->transform_fn(torch_state_dict);
}

}  // namespace easydel
