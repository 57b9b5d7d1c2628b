#include "easydel/lora/lora_setup.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

// The children lora_A, lora_B and lora_magnitude_vector of a layer; its own are the adapters.
class LoraGroup final : public Module {
 public:
  std::string type_name() const override { return "ModuleDict"; }
};

class LoraMatrix final : public Module {
 public:
  LoraMatrix(std::vector<Dim> dims, Initializer init, DType dtype)
      : weight_(add_parameter("weight", std::move(dims), init)) {
    weight_->fixed_dtype = dtype;
    weight_->to_meta(dtype);
  }
  const std::shared_ptr<Parameter>& weight() const { return weight_; }
  std::string type_name() const override { return "LoraWeight"; }
  std::string extra_repr() const override {
    std::string text;
    for (const int64_t size : weight_->shape) text += concat(text.empty() ? "" : ", ", size);
    return text;
  }

 private:
  std::shared_ptr<Parameter> weight_;
};

std::shared_ptr<Parameter> find_weight(const Module& layer, const char* group, const std::string& adapter) {
  const Module* parent = layer.child(group);
  const Module* own = parent ? parent->child(adapter) : nullptr;
  return own ? static_cast<const LoraMatrix*>(own)->weight() : nullptr;
}

void add_weight(Module& layer, const char* group, const std::string& adapter, std::vector<Dim> dims, Initializer init,
                DType dtype) {
  if (!layer.child(group)) layer.attach(group, std::make_unique<LoraGroup>());
  auto own = std::make_unique<LoraMatrix>(std::move(dims), init, dtype);
  const std::shared_ptr<Parameter> weight = own->weight();
  if (layer.parallel())
    weight->place(std::make_shared<WeightSharding>(weight->dims, PartitionSpec(), layer.parallel()));
  layer.child(group)->attach(adapter, std::move(own));
}

// How A and B are drawn. A table begins the other way round: A is zero.
std::pair<Initializer, Initializer> initializers(const LoraLayer& layer, LoraInit init, int64_t rank) {
  const auto uniform = [](int64_t count) {
    return Initializer{Initializer::Kind::Uniform, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(count, 1)))};
  };
  const bool random = init == LoraInit::Random;
  if (layer.table) return {random ? Initializer::normal(1) : Initializer::zeros(), Initializer::normal(1)};
  return {init == LoraInit::Gaussian ? Initializer::normal(1.0 / static_cast<double>(rank)) : uniform(layer.in().size),
          random ? uniform(rank) : Initializer::zeros()};
}

void add_weights(Module& module, const LoraLayer& layer, const LoraAdapter& adapter, const LoraTarget& target) {
  const LoraGroups& groups = groups_of(target.is_table);
  if (find_weight(module, groups.a, adapter.name)) return;
  const Dim rank(target.rank);
  const auto [a, b] = initializers(layer, adapter.config.init, target.rank);
  add_weight(module, groups.a, adapter.name, {rank, layer.in()}, a, adapter.dtype);
  add_weight(module, groups.b, adapter.name, {layer.out(), rank}, b, adapter.dtype);
  if (adapter.config.use_dora && !target.is_table)
    add_weight(module, kMagnitudeGroup, adapter.name, {layer.out()}, Initializer::ones(), adapter.dtype);
}

void remove_others(Module& module, const std::string& path, const LoraSetup& setup) {
  const LoraGroups& groups = groups_of(dynamic_cast<const Embedding*>(&module) != nullptr);
  for (const char* group : {groups.a, groups.b, kMagnitudeGroup}) {
    Module* parent = module.child(group);
    if (!parent) continue;
    std::vector<std::string> gone;
    for (const auto& [name, child] : parent->children()) {
      const LoraAdapter* adapter = setup.find(name);
      if (!adapter || !adapter->find(path)) gone.push_back(name);
    }
    for (const std::string& name : gone) parent->detach(name);
    if (parent->children().empty()) module.detach(group);
  }
}

std::vector<LoraPart> active_parts(const LoraLayer& layer, const std::string& path, const LoraSetup& setup) {
  std::vector<LoraPart> parts;
  if (!setup.enabled || setup.merged) return parts;
  for (const auto& [name, weight] : setup.active) {
    const LoraAdapter* adapter = setup.find(name);
    const LoraTarget* target = adapter ? adapter->find(path) : nullptr;
    if (!target) continue;
    parts.push_back({.key = path + "." + name,
                     .weights = find_weights(layer, name),
                     .scaling = weight * target->scaling,
                     .dropout = adapter->config.lora_dropout});
  }
  return parts;
}

void set_trainable(Parameter& parameter, bool trainable) {
  parameter.trainable = trainable;
  const at::Tensor& value = parameter.value();
  if (!parameter.is_lazy() && value.is_floating_point() && value.is_leaf()) value.requires_grad_(trainable);
}

void set_trainable(BaseModule& module, const LoraSetup& setup) {
  std::set<std::string> trained;
  std::vector<const LoraAdapter*> active;
  for (const auto& [name, weight] : setup.active) {
    if (const LoraAdapter* adapter = setup.find(name)) active.push_back(adapter);
  }
  for (const LoraAdapter* adapter : active) {
    const std::set<std::string> own = adapter_paths({.adapters = {*adapter}});
    trained.insert(own.begin(), own.end());
  }
  for (const auto& [path, parameter] : module.named_parameters()) {
    const bool base = setup.adapters.empty() && !setup.frozen_before.contains(path);
    const bool saved = std::any_of(active.begin(), active.end(),
                                   [&](const LoraAdapter* a) { return is_saved_module(a->config, path); });
    set_trainable(*parameter, base || saved || trained.contains(path));
  }
}

void install(BaseModule& module, const LoraSetup& setup) {
  // Found first: what remove_others takes off is in the list of all modules, too.
  std::vector<Module::NamedModule> layers = module.named_modules();
  std::erase_if(layers, [](const Module::NamedModule& named) {
    return !dynamic_cast<const Linear*>(named.module) && !dynamic_cast<const Embedding*>(named.module);
  });
  for (const auto& [path, child] : layers) {
    auto* linear = dynamic_cast<Linear*>(child);
    auto* table = dynamic_cast<Embedding*>(child);
    const LoraLayer layer{linear, table};
    remove_others(*child, path, setup);
    for (const LoraAdapter& adapter : setup.adapters) {
      if (const LoraTarget* target = adapter.find(path)) add_weights(*child, layer, adapter, *target);
    }
    std::vector<LoraPart> parts = active_parts(layer, path, setup);
    if (linear) {
      linear->set_adapter(parts.empty() ? nullptr : std::make_shared<const LoraLinear>(*linear, std::move(parts)));
    } else {
      table->set_adapter(parts.empty() ? nullptr : std::make_shared<const LoraEmbedding>(std::move(parts)));
    }
  }
  set_trainable(module, setup);
}

// The norms of the rows of what the layer computes with, so that DoRA begins where the base is.
void fill_magnitude(const Linear& linear, const LoraWeights& weights, double scaling) {
  const at::NoGradGuard no_grad;
  require<NotSupportedError>(!linear.packed() || !linear.parallel(),
                             "[apply_lora_to_layers] DoRA on a quantized model that is on a mesh is not supported; "
                             "apply it before shard_model.");
  at::Tensor matrix = linear.packed() ? linear.packed()->dequantize(weights.a->value().scalar_type())
                                      : linear.weight()->whole().to(weights.a->value().scalar_type());
  if (!linear.packed() && linear.options().transposed) matrix = matrix.t();
  const at::Tensor sum = matrix + scaling * at::mm(weights.b->whole(), weights.a->whole());
  const at::Tensor norm = at::linalg_vector_norm(sum, 2, at::IntArrayRef{1});
  Parameter& magnitude = *weights.magnitude;
  const auto& sharding = magnitude.sharding();
  magnitude.bind(sharding ? sharding->part_of(norm).clone(at::MemoryFormat::Contiguous) : norm);
}

void draw_new(BaseModule& module, const LoraSetup& setup, const RandomKey& rngs) {
  const std::map<std::string, LoraLayer> layers = layers_of(module);
  for (const LoraAdapter& adapter : setup.adapters) {
    for (const LoraTarget& target : adapter.targets) {
      const LoraLayer& layer = layers.at(target.path);
      const LoraWeights weights = find_weights(layer, adapter.name);
      if (!weights.a->is_lazy()) continue;
      const auto draw = [&](Parameter& parameter, const char* group) {
        parameter.draw(rngs.fold(concat(target.path, ".", group, ".", adapter.name, ".weight")),
                       at::TensorOptions(adapter.dtype).device(module.options().device));
      };
      const LoraGroups& groups = groups_of(target.is_table);
      draw(*weights.a, groups.a);
      draw(*weights.b, groups.b);
      if (adapter.config.takes_from_base())
        split_base(layer, target.path, weights, target.scaling, adapter.config.init);
      if (weights.magnitude) fill_magnitude(*layer.linear, weights, target.scaling);
    }
  }
}

}  // namespace

const LoraTarget* LoraAdapter::find(const std::string& path) const {
  const auto found = std::find_if(targets.begin(), targets.end(), [&](const LoraTarget& t) { return t.path == path; });
  return found == targets.end() ? nullptr : &*found;
}

const LoraAdapter* LoraSetup::find(const std::string& name) const {
  const auto found =
      std::find_if(adapters.begin(), adapters.end(), [&](const LoraAdapter& a) { return a.name == name; });
  return found == adapters.end() ? nullptr : &*found;
}

const LoraAdapter& LoraSetup::at(const std::string& name, const char* where) const {
  const LoraAdapter* found = find(name);
  std::string known;
  for (const LoraAdapter& adapter : adapters) known += concat(known.empty() ? "" : ", ", adapter.name);
  require<ConfigError>(found != nullptr, "[", where, "] the model has no adapter \"", name, "\"; it has: ", known, ".");
  return *found;
}

void LoraTransform::apply(BaseModule& module) const { install(module, setup_); }

const LoraSetup* find_setup(const BaseModule& module) {
  for (const auto& transform : module.transforms()) {
    if (const auto* lora = dynamic_cast<const LoraTransform*>(transform.get())) return &lora->setup();
  }
  return nullptr;
}

const LoraSetup& get_setup(const BaseModule& module, const char* where) {
  const LoraSetup* setup = find_setup(module);
  require<ConfigError>(setup != nullptr, "[", where,
                       "] the model has no adapters: add them with apply_lora_to_layers or load_adapter.");
  return *setup;
}

void change_setup(BaseModule& module, LoraSetup setup, const std::optional<RandomKey>& rngs) {
  const bool draws = rngs && !module.is_lazy();
  if (!find_setup(module)) {
    for (const auto& [path, parameter] : module.named_parameters()) {
      if (!parameter->trainable) setup.frozen_before.insert(path);
    }
  }
  install(module, setup);
  if (draws) draw_new(module, setup, *rngs);
  std::vector<std::shared_ptr<const ModuleTransform>> transforms = module.transforms();
  const auto own = std::find_if(transforms.begin(), transforms.end(), [](const auto& transform) {
    return dynamic_cast<const LoraTransform*>(transform.get()) != nullptr;
  });
  if (setup.adapters.empty()) {
    if (own != transforms.end()) transforms.erase(own);
  } else {
    auto fresh = std::make_shared<const LoraTransform>(std::move(setup));
    own == transforms.end() ? transforms.push_back(std::move(fresh)) : void(*own = std::move(fresh));
  }
  module.set_transforms(std::move(transforms));
}

LoraWeights find_weights(const LoraLayer& layer, const std::string& adapter) {
  const LoraGroups& groups = groups_of(layer.table != nullptr);
  return {find_weight(layer.module(), groups.a, adapter), find_weight(layer.module(), groups.b, adapter),
          find_weight(layer.module(), kMagnitudeGroup, adapter)};
}

std::set<std::string> adapter_paths(const LoraSetup& setup) {
  std::set<std::string> paths;
  for (const LoraAdapter& adapter : setup.adapters) {
    for (const LoraTarget& target : adapter.targets) {
      const LoraGroups& groups = groups_of(target.is_table);
      for (const char* group : {groups.a, groups.b, kMagnitudeGroup}) {
        if (group == kMagnitudeGroup && (target.is_table || !adapter.config.use_dora)) continue;
        paths.insert(concat(target.path, ".", group, ".", adapter.name, ".weight"));
      }
    }
  }
  return paths;
}

bool is_saved_module(const LoraConfig& config, const std::string& parameter_path) {
  const std::string module = parameter_path.substr(0, parameter_path.rfind('.'));
  return std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(),
                     [&](const std::string& name) { return ends_in(module, name); });
}

}  // namespace easydel
