#include "easydel/lora/merge.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/lora/lora.h"

namespace easydel {
namespace {

// Layers that an active adapter changes, each once.
std::set<std::string> active_layers(const LoraSetup& setup) {
  std::set<std::string> layers;
  for (const auto& [name, weight] : setup.active) {
    if (const LoraAdapter* adapter = setup.find(name)) {
      for (const LoraTarget& target : adapter->targets) layers.insert(target.path);
    }
  }
  return layers;
}

}  // namespace

void check_mergeable(const BaseModule& model, const LoraSetup& setup) {
  const std::set<std::string> layers = active_layers(setup);
  const auto linears = linears_of(model);
  std::set<std::string> tied;
  for (const auto& [path, first] : model.tied_parameters()) {
    tied.insert(path);
    tied.insert(first);
  }
  for (const std::string& layer : layers) {
    require<NotSupportedError>(
        !linears.at(layer)->packed(), "[merge_lora_params] \"", layer,
        "\" is quantized, and an adapter cannot be added to codes. Merge into the model that was "
        "quantized, then quantize.");
    require<NotSupportedError>(!tied.contains(layer + ".weight"), "[merge_lora_params] \"", layer,
                               "\" shares its weight with the embeddings, which merging would change too.");
  }
}

at::Tensor merged_weight(const LoraSetup& setup, const std::string& layer, bool transposed,
                         const std::function<at::Tensor(const std::string& path)>& whole) {
  const at::NoGradGuard no_grad;
  const at::Tensor stored = whole(layer + ".weight").clone();
  at::Tensor base, matrix;
  for (const auto& [name, weight] : setup.active) {
    const LoraAdapter* adapter = setup.find(name);
    const LoraTarget* target = adapter ? adapter->find(layer) : nullptr;
    if (!target) continue;
    const auto part = [&](const char* group) { return whole(concat(layer, ".", group, ".", name, ".weight")).clone(); };
    const at::Tensor a = part("lora_A"), b = part("lora_B");
    if (!base.defined()) {
      base = stored.to(at::promote_types(stored.scalar_type(), a.scalar_type()));
      if (transposed) base = base.t();
      matrix = base;
    }
    const at::ScalarType wide = base.scalar_type();
    const at::Tensor magnitude = adapter->config.use_dora ? part("lora_magnitude_vector").to(wide) : at::Tensor();
    matrix = merge_part(matrix, base, a.to(wide), b.to(wide), magnitude, weight * target->scaling);
  }
  if (!matrix.defined()) return stored;
  return (transposed ? matrix.t() : matrix).to(stored.scalar_type()).contiguous();
}

void merge_adapters(BaseModule& model, bool keep_originals) {
  LoraSetup setup = get_setup(model, "merge_lora_params");
  require<ConfigError>(!setup.merged,
                       "[merge_lora_params] the adapters are merged already: unmerge_lora_params() puts "
                       "the weights back, unwrap_lora_to_layers() takes the adapters off.");
  require<Error>(!model.is_lazy(), "[merge_lora_params] ", model.type_name(), " has no weights yet.");
  require<ConfigError>(setup.enabled && !setup.active.empty(), "[merge_lora_params] no adapter is active.");
  const std::set<std::string> layers = active_layers(setup);
  check_mergeable(model, setup);  // all of them, before the first weight changes
  const auto linears = linears_of(model);
  std::map<std::string, std::shared_ptr<Parameter>> parameters;
  for (const auto& [path, parameter] : model.named_parameters()) parameters.emplace(path, parameter);
  for (const std::string& layer : layers) {
    Parameter& weight = *linears.at(layer)->weight();
    const at::Tensor whole = merged_weight(setup, layer, linears.at(layer)->options().transposed,
                                           [&](const std::string& path) { return parameters.at(path)->whole(); });
    if (keep_originals) setup.originals[layer + ".weight"] = {weight.value(), weight.sharding()};
    const auto& sharding = weight.sharding();
    weight.bind(sharding && !sharding->is_whole() ? sharding->part_of(whole).clone(at::MemoryFormat::Contiguous)
                                                  : whole);
  }
  setup.merged = true;
  change_setup(model, std::move(setup));
}

void unmerge_lora_params(BaseModule& model) {
  LoraSetup setup = get_setup(model, "unmerge_lora_params");
  require<ConfigError>(setup.merged, "[unmerge_lora_params] nothing is merged.");
  std::map<std::string, std::shared_ptr<Parameter>> parameters;
  for (const auto& [path, parameter] : model.named_parameters()) parameters.emplace(path, parameter);
  for (const auto& [path, original] : setup.originals) {
    require<ConfigError>(parameters.at(path)->sharding() == original.sharding, "[unmerge_lora_params] \"", path,
                         "\" has been put on another mesh since it was merged.");
  }
  for (const auto& [path, original] : setup.originals) parameters.at(path)->bind(original.value);
  setup.originals.clear();
  setup.merged = false;
  change_setup(model, std::move(setup));
}

bool lora_is_merged(const BaseModule& model) {
  const LoraSetup* setup = find_setup(model);
  return setup && setup->merged;
}

LoraSetup with_new_adapter(const BaseModule& model, const std::string& name, const char* where) {
  require<ConfigError>(!name.empty() && name.find('.') == std::string::npos, "[", where,
                       "] the name of an adapter must be a text without dots; got \"", name, "\".");
  const LoraSetup* known = find_setup(model);
  LoraSetup setup = known ? *known : LoraSetup();
  require<ConfigError>(!setup.merged, "[", where,
                       "] the adapters of this model are merged into its weights: "
                       "unmerge_lora_params() puts the weights back, unwrap_lora_to_layers() takes the adapters off.");
  require<ConfigError>(!setup.find(name), "[", where, "] the model has an adapter \"", name,
                       "\" already. Give this one another name, or delete that one.");
  return setup;
}

DType adapter_dtype(const BaseModule& model) { return model.param_dtype() == float64 ? float64 : float32; }

}  // namespace easydel
