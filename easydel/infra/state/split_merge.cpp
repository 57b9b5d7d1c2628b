#include "easydel/infra/state/split_merge.h"

#include <algorithm>
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/files/torch_state.h"
#include "easydel/infra/parallel/shard_model.h"
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

}  // namespace

GraphOther graphother(const BaseModule& model) {
  GraphOther map;
  for (const auto& [path, tensor] : model.named_buffers()) map.set(path, *tensor);
  return map;
}

std::pair<GraphDef, GraphState> split_module(const BaseModule& model) {
  GraphState everything = model.params();
  for (const auto& [path, tensor] : graphother(model)) everything.set(path, tensor);
  return {model.graphdef(), std::move(everything)};
}

std::shared_ptr<BaseModule> merge_module(const GraphDef& graphdef, const GraphState& state, const GraphOther& other) {
  std::shared_ptr<BaseModule> module = Registry::instance().make_module(*graphdef.config, graphdef.task);
  for (const auto& transform : graphdef.transforms) module->transform(transform);
  module->set_options(graphdef.options);
  module->set_companions(graphdef.companions);
  place_like(*module, graphdef);
  GraphState params;
  const TensorMap own = module->params();
  GraphOther rest = other;
  for (const auto& [path, tensor] : state) own.contains(path) ? params.set(path, tensor) : rest.set(path, tensor);
  std::vector<std::string> missing;
  for (const auto& [path, tensor] : own) {
    if (!params.contains(path)) missing.push_back(path);
  }
  require<ConfigError>(missing.empty(), "[merge_module] these parameters are missing: ", list_paths(missing), ".");
  merge_params(*module, params);
  std::vector<std::string> unknown;
  auto buffers = module->named_buffers();
  for (const auto& [path, tensor] : rest) {
    const auto found =
        std::find_if(buffers.begin(), buffers.end(), [&](const Module::NamedBuffer& b) { return b.path == path; });
    if (found == buffers.end()) {
      unknown.push_back(path);
    } else {
      *found->tensor = tensor;
    }
  }
  require<ConfigError>(unknown.empty(), "[merge_module] ", module->type_name(), " has no ", list_paths(unknown), ".");
  return module;
}

void merge_params(BaseModule& model, const GraphState& params) {
  const std::vector<Module::NamedParameter> own = model.named_parameters();
  std::unordered_map<std::string_view, Parameter*> by_path;  // only once they come in another order than the module's
  const auto find = [&](const std::string& path, std::size_t place) -> Parameter* {
    if (place < own.size() && own[place].path == path) return own[place].parameter.get();
    if (by_path.empty()) {
      for (const Module::NamedParameter& named : own) by_path.emplace(named.path, named.parameter.get());
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
  require<ConfigError>(unknown.empty(), "[merge_params] ", model.type_name(), " has no ", list_paths(unknown), ".");
  for (auto& [parameter, tensor] : changes) parameter->bind(tensor);
}

PureTransform::PureTransform(const BaseModule& module)
    : graphdef_(module.graphdef()), graphother_(easydel::graphother(module)) {}

ModelOutput PureTransform::operator()(const GraphState& params, const ModelInputs& inputs) const {
  return (*merge_module(graphdef_, params, graphother_))(inputs);
}

GraphState PureTransform::operator()(const TensorMap& torch_state_dict) const {
  std::shared_ptr<BaseModule> module = Registry::instance().make_module(*graphdef_.config, graphdef_.task);
  for (const auto& transform : graphdef_.transforms) module->transform(transform);
  module->set_options(graphdef_.options);
  place_like(*module, graphdef_);
  return transform_fn(*module, torch_state_dict);
}

}  // namespace easydel
