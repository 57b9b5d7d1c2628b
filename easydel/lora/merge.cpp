#include "easydel/lora/merge.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/lora/lora.h"
#include "easydel/quantization/packed_matrix.h"

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
  const auto layers = layers_of(model);
  std::set<std::string> tied;
  for (const auto& [path, first] : model.tied_parameters()) {
    tied.insert(path);
    tied.insert(first);
  }
  for (const std::string& path : active_layers(setup)) {
    const auto packed = layers.at(path).packed();
    require<NotSupportedError>(
        !packed || packed->method().can_quantize(), "[merge_lora_params] \"", path,
        "\" has GGUF blocks, which cannot be requantized here. Load the file with a quantization_config, then merge.");
    const auto shares = [&](const auto& other) { return other.first != path && other.second.packed() == packed; };
    const bool shared = packed && std::any_of(layers.begin(), layers.end(), shares);
    require<NotSupportedError>(!shared && !tied.contains(path + ".weight"), "[merge_lora_params] \"", path,
                               "\" shares its weight with the embeddings, which merging would change too.");
  }
}

namespace {

at::Tensor merged_weight(const LoraSetup& setup, const std::string& path, const at::Tensor& stored, bool transposed,
                         const std::function<at::Tensor(const std::string& path)>& whole) {
  const at::NoGradGuard no_grad;
  at::Tensor base, matrix;
  for (const auto& [name, weight] : setup.active) {
    const LoraAdapter* adapter = setup.find(name);
    const LoraTarget* target = adapter ? adapter->find(path) : nullptr;
    if (!target) continue;
    const auto part = [&](const char* group) { return whole(concat(path, ".", group, ".", name, ".weight")).clone(); };
    const LoraGroups& groups = groups_of(target->is_table);
    const at::Tensor a = part(groups.a), b = part(groups.b);
    if (!base.defined()) {
      base = stored.to(at::promote_types(stored.scalar_type(), a.scalar_type()));
      if (transposed) base = base.t();
      matrix = base;
    }
    const at::ScalarType wide = base.scalar_type();
    const bool has_magnitude = adapter->config.use_dora && !target->is_table;
    const at::Tensor magnitude = has_magnitude ? part(kMagnitudeGroup).to(wide) : at::Tensor();
    matrix = merge_part(matrix, base, a.to(wide), b.to(wide), magnitude, weight * target->scaling);
  }
  if (!matrix.defined()) return stored;
  return (transposed ? matrix.t() : matrix).to(stored.scalar_type()).contiguous();
}

}  // namespace

std::vector<at::Tensor> merged_parts(const LoraSetup& setup, const std::string& path, const LoraLayer& layer,
                                     const std::function<at::Tensor(const std::string& path)>& whole) {
  const auto packed = layer.packed();
  if (!packed) return {merged_weight(setup, path, whole(path + ".weight").clone(), layer.is_transposed(), whole)};
  std::vector<at::Tensor> parts;
  for (const quantization::Part& part : packed->parts()) parts.push_back(whole(path + "." + part.name).cpu().clone());
  // The packed matrix is [out, in] regardless of the dense layout; a table's rows are its vectors.
  const at::Tensor merged = merged_weight(setup, path, packed->matrix_of(parts), layer.table != nullptr,
                                          [&](const std::string& name) { return whole(name).cpu(); });
  return packed->requantized(merged, parts);
}

void merge_adapters(BaseModule& model, bool keep_originals) {
  LoraSetup setup = get_setup(model, "merge_lora_params");
  require<ConfigError>(!setup.merged,
                       "[merge_lora_params] the adapters are already merged: unmerge_lora_params() restores the "
                       "weights, unwrap_lora_to_layers() removes the adapters.");
  require<Error>(!model.is_lazy(), "[merge_lora_params] ", model.type_name(), " has no weights yet.");
  require<ConfigError>(setup.enabled && !setup.active.empty(), "[merge_lora_params] no adapter is active.");
  check_mergeable(model, setup);  // all of them, before the first weight changes
  const auto layers = layers_of(model);
  std::map<std::string, std::shared_ptr<Parameter>> parameters;
  for (const auto& [path, parameter] : model.named_parameters()) parameters.emplace(path, parameter);
  for (const std::string& path : active_layers(setup)) {
    const LoraLayer& layer = layers.at(path);
    const std::vector<at::Tensor> whole =
        merged_parts(setup, path, layer, [&](const std::string& name) { return parameters.at(name)->whole(); });
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::string name = concat(path, ".", layer.packed() ? layer.packed()->parts()[i].name : "weight");
      Parameter& parameter = *parameters.at(name);
      const auto& sharding = parameter.sharding();
      if (keep_originals) setup.originals[name] = {parameter.value(), sharding};
      const at::Tensor part = sharding && !sharding->is_whole()
                                  ? sharding->part_of(whole[i]).clone(at::MemoryFormat::Contiguous)
                                  : whole[i];
      parameter.bind(part.to(parameter.value().device()));
    }
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
                         "\" has moved to another mesh since it was merged.");
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
                       "] the name of an adapter must not be empty or contain dots; got \"", name, "\".");
  const LoraSetup* known = find_setup(model);
  LoraSetup setup = known ? *known : LoraSetup();
  require<ConfigError>(!setup.merged, "[", where,
                       "] the adapters of this model are merged into its weights: unmerge_lora_params() restores the "
                       "weights, unwrap_lora_to_layers() removes the adapters.");
  require<ConfigError>(!setup.find(name), "[", where, "] the model has an adapter \"", name,
                       "\" already. Choose another name, or delete that one.");
  return setup;
}

DType adapter_dtype(const BaseModule& model) { return model.param_dtype() == float64 ? float64 : float32; }

}  // namespace easydel
