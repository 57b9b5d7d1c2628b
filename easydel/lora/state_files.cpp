// An adapted model in the checkpoints of its training.
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/files/companions.h"
#include "easydel/lora/adapter_keys.h"
#include "easydel/lora/lora.h"
#include "easydel/lora/merge.h"
#include "easydel/quantization/packed_matrix.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

bool is_active(const LoraSetup& setup, const std::string& layer) {
  return std::any_of(setup.active.begin(), setup.active.end(), [&](const auto& active) {
    const LoraAdapter* adapter = setup.find(active.first);
    return adapter && adapter->find(layer);
  });
}

// The model without its adapters, whose files take merged weights.
void write_merged(const BaseModule& model, const LoraSetup& setup, const fs::path& directory,
                  const SaveOptions& options, const std::function<at::Tensor(const std::string& path)>& whole) {
  GraphDef graphdef = model.graphdef();
  std::erase_if(graphdef.transforms,
                [](const auto& transform) { return dynamic_cast<const LoraTransform*>(transform.get()) != nullptr; });
  const std::set<std::string> own = adapter_paths(setup);
  const TensorMap own_params = model.params();
  GraphState params;  // detached: the tensors of the model that trains must not come to require gradients
  auto infos = *graphdef.parameters;
  std::erase_if(infos, [&](const ParameterInfo& info) { return own.contains(info.path); });
  for (const ParameterInfo& info : infos) params.set(info.path, own_params.at(info.path).detach());
  graphdef.parameters = std::make_shared<const std::vector<ParameterInfo>>(std::move(infos));
  const std::shared_ptr<BaseModule> plain = BaseModule::merge_module(graphdef, params, model.graphother());
  struct Place {
    std::string layer;
    std::size_t part;
  };
  std::map<std::string, Place> places;  // of the layers' weights, by path
  const auto layers = layers_of(model);
  for (const auto& [path, layer] : layers) {
    const auto packed = layer.packed();
    for (std::size_t i = 0; i < (packed ? packed->parts().size() : 1); ++i)
      places.emplace(concat(path, ".", packed ? packed->parts()[i].name : "weight"), Place{path, i});
  }
  // The parts of a layer are requested one after the other, each separately.
  std::string merged;
  std::vector<at::Tensor> parts;
  write_files(*plain, directory, options, [&](const std::string& path) {
    const auto place = places.find(path);
    if (place == places.end() || setup.merged || !is_active(setup, place->second.layer)) return whole(path);
    const std::string& layer = place->second.layer;
    if (merged != layer) parts = merged_parts(setup, layer, layers.at(layer), whole);
    merged = layer;
    return parts[place->second.part];
  });
}

}  // namespace

fs::path adapter_directory(const BaseModule& model, const fs::path& checkpoint, const std::string& name) {
  // Not next to the model's own files: transformers would add the adapter to a model that already has it merged.
  const fs::path directory = checkpoint / "adapter";
  return name == "default" || adapter_names(model).size() == 1 ? directory : directory / name;
}

void set_saves_merged(BaseModule& model, bool merged) {
  LoraSetup setup = get_setup(model, "set_saves_merged");
  if (merged) check_mergeable(model, setup);
  setup.saves_merged = merged;
  change_setup(model, std::move(setup));
}

void LoraTransform::write_model(const BaseModule& model, const fs::path& directory, const SaveOptions& options,
                                const std::function<at::Tensor(const std::string& path)>& whole) const {
  for (const LoraAdapter& adapter : setup_.adapters)
    write_adapter(model, adapter_directory(model, directory, adapter.name), adapter.name, "", whole);
  if (setup_.saves_merged) return write_merged(model, setup_, directory, options, whole);
  const std::unique_ptr<BaseConfig> config = model.config().clone();
  config->architectures = {model.type_name()};
  config->save_pretrained(directory);
  model.companions().write(directory);
}

}  // namespace easydel
