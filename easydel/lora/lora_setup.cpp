#include "easydel/lora/lora_setup.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr const char* kA = "lora_A";
constexpr const char* kB = "lora_B";
constexpr const char* kMagnitude = "lora_magnitude_vector";

// The children lora_A, lora_B and lora_magnitude_vector of a Linear; its own are the adapters.
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

std::shared_ptr<Parameter> find_weight(const Linear& linear, const char* group, const std::string& adapter) {
  const Module* parent = linear.child(group);
  const Module* own = parent ? parent->child(adapter) : nullptr;
  return own ? static_cast<const LoraMatrix*>(own)->weight() : nullptr;
}

void add_weight(Linear& linear, const char* group, const std::string& adapter, std::vector<Dim> dims, Initializer init,
                DType dtype) {
  if (!linear.child(group)) linear.attach(group, std::make_unique<LoraGroup>());
  auto own = std::make_unique<LoraMatrix>(std::move(dims), init, dtype);
  const std::shared_ptr<Parameter> weight = own->weight();
  if (linear.parallel())
    weight->place(std::make_shared<WeightSharding>(weight->dims, PartitionSpec(), linear.parallel()));
  linear.child(group)->attach(adapter, std::move(own));
}

void add_weights(Linear& linear, const LoraAdapter& adapter, const LoraTarget& target) {
  if (find_weight(linear, kA, adapter.name)) return;
  const Dim rank(target.rank);
  const double in = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(linear.in_features(), 1)));
  const LoraInit init = adapter.config.init;
  add_weight(linear, kA, adapter.name, {rank, linear.in_dim()},
             init == LoraInit::Gaussian ? Initializer::normal(1.0 / static_cast<double>(target.rank))
                                        : Initializer{Initializer::Kind::Uniform, in},
             adapter.dtype);
  add_weight(linear, kB, adapter.name, {linear.out_dim(), rank},
             init == LoraInit::Random
                 ? Initializer{Initializer::Kind::Uniform, 1 / std::sqrt(static_cast<double>(target.rank))}
                 : Initializer::zeros(),
             adapter.dtype);
  if (adapter.config.use_dora)
    add_weight(linear, kMagnitude, adapter.name, {linear.out_dim()}, Initializer::ones(), adapter.dtype);
}

void remove_others(Linear& linear, const std::string& path, const LoraSetup& setup) {
  for (const char* group : {kA, kB, kMagnitude}) {
    Module* parent = linear.child(group);
    if (!parent) continue;
    std::vector<std::string> gone;
    for (const auto& [name, child] : parent->children()) {
      const LoraAdapter* adapter = setup.find(name);
      if (!adapter || !adapter->find(path)) gone.push_back(name);
    }
    for (const std::string& name : gone) parent->detach(name);
    if (parent->children().empty()) linear.detach(group);
  }
}

std::shared_ptr<const LinearAdapter> active_parts(const Linear& linear, const std::string& path,
                                                  const LoraSetup& setup) {
  if (!setup.enabled || setup.merged) return nullptr;
  std::vector<LoraPart> parts;
  for (const auto& [name, weight] : setup.active) {
    const LoraAdapter* adapter = setup.find(name);
    const LoraTarget* target = adapter ? adapter->find(path) : nullptr;
    if (!target) continue;
    parts.push_back({.key = path + "." + name,
                     .weights = find_weights(linear, name),
                     .scaling = weight * target->scaling,
                     .dropout = adapter->config.lora_dropout});
  }
  return parts.empty() ? nullptr : std::make_shared<const LoraLinear>(linear, std::move(parts));
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
    for (const LoraTarget& target : adapter->targets) {
      for (const char* group : {kA, kB, kMagnitude})
        trained.insert(concat(target.path, ".", group, ".", adapter->name, ".weight"));
    }
  }
  for (const auto& [path, parameter] : module.named_parameters()) {
    const bool base = setup.adapters.empty() && !setup.frozen_before.contains(path);
    const bool saved = std::any_of(active.begin(), active.end(),
                                   [&](const LoraAdapter* a) { return is_saved_module(a->config, path); });
    set_trainable(*parameter, base || saved || trained.contains(path));
  }
}

void install(BaseModule& module, const LoraSetup& setup) {
  for (const auto& [path, linear] : linears_of(module)) {
    remove_others(*linear, path, setup);
    for (const LoraAdapter& adapter : setup.adapters) {
      if (const LoraTarget* target = adapter.find(path)) add_weights(*linear, adapter, *target);
    }
    linear->set_adapter(active_parts(*linear, path, setup));
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
  const std::map<std::string, Linear*> linears = linears_of(module);
  for (const LoraAdapter& adapter : setup.adapters) {
    for (const LoraTarget& target : adapter.targets) {
      const Linear& linear = *linears.at(target.path);
      const LoraWeights weights = find_weights(linear, adapter.name);
      if (!weights.a->is_lazy()) continue;
      const auto draw = [&](Parameter& parameter, const char* group) {
        parameter.draw(rngs.fold(concat(target.path, ".", group, ".", adapter.name, ".weight")),
                       at::TensorOptions(adapter.dtype).device(module.options().device));
      };
      draw(*weights.a, kA);
      draw(*weights.b, kB);
      if (weights.magnitude) fill_magnitude(linear, weights, target.scaling);
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
                       "] the model has no adapters: apply_lora_to_layers or load_adapter "
                       "puts them on.");
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

std::map<std::string, Linear*> linears_of(const BaseModule& module) {
  std::map<std::string, Linear*> found;
  for (const auto& [path, child] : const_cast<BaseModule&>(module).named_modules()) {
    if (auto* linear = dynamic_cast<Linear*>(child)) found.emplace(path, linear);
  }
  return found;
}

LoraWeights find_weights(const Linear& linear, const std::string& adapter) {
  return {find_weight(linear, kA, adapter), find_weight(linear, kB, adapter), find_weight(linear, kMagnitude, adapter)};
}

std::set<std::string> adapter_paths(const LoraSetup& setup) {
  std::set<std::string> paths;
  for (const LoraAdapter& adapter : setup.adapters) {
    for (const LoraTarget& target : adapter.targets) {
      for (const char* group : {kA, kB, kMagnitude}) {
        if (group == kMagnitude && !adapter.config.use_dora) continue;
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
