// Which adapters count, and adapters made of others.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/lora/lora.h"
#include "easydel/lora/merge.h"

namespace easydel {
namespace {

LoraSetup unmerged_setup(const BaseModule& model, const char* where) {
  LoraSetup setup = get_setup(model, where);
  require<ConfigError>(!setup.merged, "[", where, "] the adapters are merged: unmerge_lora_params() first.");
  return setup;
}

void bind_whole(Parameter& parameter, const at::Tensor& whole) {
  const auto& sharding = parameter.sharding();
  parameter.bind(sharding && !sharding->is_whole() ? sharding->part_of(whole).clone(at::MemoryFormat::Contiguous)
                                                   : whole.contiguous());
}

// Of one layer: A and B of the new adapter, from those that the layer has.
void combine(const LoraWeights& into, const LoraLayer& layer, const std::string& path, const LoraSetup& setup,
             const std::vector<std::pair<std::string, double>>& weights, bool cat) {
  const at::NoGradGuard no_grad;
  at::Tensor a = at::zeros(into.a->shape, into.a->value().options()), b = at::zeros(into.b->shape, a.options());
  int64_t row = 0;
  for (const auto& [name, weight] : weights) {
    const LoraTarget* target = setup.find(name)->find(path);
    if (!target) continue;
    const LoraWeights own = find_weights(layer, name);
    const double scaled = weight * target->scaling;
    const double root = std::sqrt(std::abs(scaled));
    const at::Tensor part_a = own.a->whole() * (cat ? scaled : std::copysign(root, scaled));
    const at::Tensor part_b = own.b->whole() * (cat ? 1.0 : root);
    a.narrow(0, row, target->rank).add_(part_a);
    b.narrow(1, row, target->rank).add_(part_b);
    if (cat) row += target->rank;
  }
  bind_whole(*into.a, a);
  bind_whole(*into.b, b);
}

int64_t largest_rank(const LoraAdapter& adapter) {
  int64_t rank = adapter.config.r;
  for (const LoraTarget& target : adapter.targets) rank = std::max(rank, target.rank);
  return rank;
}

}  // namespace

std::vector<std::string> adapter_names(const BaseModule& model) {
  std::vector<std::string> names;
  if (const LoraSetup* setup = find_setup(model)) {
    for (const LoraAdapter& adapter : setup->adapters) names.push_back(adapter.name);
  }
  return names;
}

std::vector<std::pair<std::string, double>> active_adapters(const BaseModule& model) {
  const LoraSetup* setup = find_setup(model);
  return setup && setup->enabled ? setup->active : std::vector<std::pair<std::string, double>>();
}

LoraConfig adapter_config(const BaseModule& model, const std::string& name) {
  return get_setup(model, "adapter_config").at(name, "adapter_config").config;
}

void set_adapter(BaseModule& model, const std::string& name) { set_adapters(model, {{name, 1.0}}); }

void set_adapters(BaseModule& model, const std::vector<std::pair<std::string, double>>& weights) {
  LoraSetup setup = unmerged_setup(model, "set_adapters");
  std::set<std::string> names;
  for (const auto& [name, weight] : weights) {
    setup.at(name, "set_adapters");
    require<ConfigError>(std::isfinite(weight), "[set_adapters] the weight of \"", name, "\" must be a number; got ",
                         weight, ".");
    require<ConfigError>(names.insert(name).second, "[set_adapters] \"", name, "\" is named twice.");
  }
  setup.active = weights;
  change_setup(model, std::move(setup));
}

void disable_adapters(BaseModule& model) {
  LoraSetup setup = unmerged_setup(model, "disable_adapters");
  setup.enabled = false;
  change_setup(model, std::move(setup));
}

void enable_adapters(BaseModule& model) {
  LoraSetup setup = get_setup(model, "enable_adapters");
  setup.enabled = true;
  change_setup(model, std::move(setup));
}

void delete_adapter(BaseModule& model, const std::string& name) {
  LoraSetup setup = unmerged_setup(model, "delete_adapter");
  setup.at(name, "delete_adapter");
  std::erase_if(setup.adapters, [&](const LoraAdapter& adapter) { return adapter.name == name; });
  std::erase_if(setup.active, [&](const auto& active) { return active.first == name; });
  change_setup(model, std::move(setup));
}

void add_weighted_adapter(BaseModule& model, const std::vector<std::pair<std::string, double>>& weights,
                          const std::string& name, const std::string& combination_type) {
  constexpr const char* kWhere = "add_weighted_adapter";
  get_setup(model, kWhere);
  LoraSetup setup = with_new_adapter(model, name, kWhere);
  require<ConfigError>(combination_type == "cat" || combination_type == "linear", "[", kWhere,
                       "] combination_type must be cat or linear; got \"", combination_type, "\".");
  require<ConfigError>(!weights.empty(), "[", kWhere, "] at least one adapter is needed.");
  const bool cat = combination_type == "cat" && weights.size() > 1;
  const int64_t first = largest_rank(setup.at(weights[0].first, kWhere));
  int64_t rank = 0;
  std::map<std::string, LoraTarget> targets;
  for (const auto& [each, weight] : weights) {
    const LoraAdapter& adapter = setup.at(each, kWhere);
    require<NotSupportedError>(!adapter.config.use_dora, "[", kWhere, "] \"", each,
                               "\" is a DoRA adapter, which cannot be combined.");
    require<ConfigError>(cat || largest_rank(adapter) == first, "[", kWhere,
                         "] linear needs adapters of the same rank; got ", first, " and ", largest_rank(adapter),
                         ". \"cat\" takes any.");
    rank = cat ? rank + largest_rank(adapter) : first;
    for (const LoraTarget& target : adapter.targets) targets[target.path] = target;
  }
  LoraAdapter made{name, {.r = rank, .lora_alpha = static_cast<double>(rank)}, {}, adapter_dtype(model)};
  made.config.init = LoraInit::Random;
  for (const auto& [path, target] : targets) made.targets.push_back({path, rank, 1.0, target.is_table});
  setup.adapters.push_back(made);
  change_setup(model, setup, model.options().rngs);
  const auto layers = layers_of(model);
  for (const LoraTarget& target : made.targets) {
    const LoraLayer& layer = layers.at(target.path);
    combine(find_weights(layer, name), layer, target.path, setup, weights, cat);
  }
}

}  // namespace easydel
