// Adapters to and from peft's files.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/infra/files/whole_tensors.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "easydel/io/torch/torch_file.h"
#include "easydel/lora/adapter_keys.h"
#include "easydel/lora/lora.h"
#include "easydel/lora/merge.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr const char* kTorchFile = "adapter_model.bin";

std::shared_ptr<const TensorSource> open_weights(const fs::path& directory) {
  if (fs::exists(directory / kWeightsFile)) return SafetensorsFile::open(directory / kWeightsFile);
  require<IoError>(fs::exists(directory / kTorchFile), "[load_adapter] ", directory.string(), " has no ", kWeightsFile,
                   " and no ", kTorchFile, ".");
  return TorchFile::open(directory / kTorchFile);
}

LoraConfig read_config(const fs::path& directory) {
  const fs::path path = directory / kConfigFile;
  require<IoError>(fs::exists(path), "[load_adapter] ", directory.string(), " has no ", kConfigFile,
                   ": it is not an adapter.");
  return LoraConfig::from_json(Json::parse_file(path.string()), path.string());
}

std::map<std::string, std::shared_ptr<Parameter>> parameters_of(const BaseModule& model) {
  std::map<std::string, std::shared_ptr<Parameter>> found;
  for (const auto& [path, parameter] : model.named_parameters()) found.emplace(path, parameter);
  return found;
}

void bind_part(Parameter& parameter, const at::Tensor& whole, DType dtype, at::Device device) {
  const auto& sharding = parameter.sharding();
  const at::Tensor part = sharding && !sharding->is_whole() ? sharding->part_of(whole) : whole;
  parameter.bind(part.to(at::TensorOptions(dtype).device(device), /*non_blocking=*/false, /*copy=*/true,
                         at::MemoryFormat::Contiguous));
}

// All tensors into the parameters that they are meant for; shapes were checked.
void bind_tensors(BaseModule& model, const LoraAdapter& adapter, const AdapterTensors& tensors,
                  const TensorSource& source) {
  const at::NoGradGuard no_grad;
  const auto parameters = parameters_of(model);
  for (const auto& [path, name] : parameter_keys(adapter, tensors))
    bind_part(*parameters.at(path), source.tensor(name), adapter.dtype, model.options().device);
  for (const auto& [path, name] : tensors.saved)
    bind_part(*parameters.at(path), source.tensor(name), parameters.at(path)->value().scalar_type(),
              model.options().device);
}

}  // namespace

AdapterFiles open_adapter(const fs::path& directory) { return {read_config(directory), open_weights(directory)}; }

void load_adapter(BaseModule& model, const fs::path& directory, const std::string& name) {
  require<Error>(!model.is_lazy(), "[load_adapter] ", model.type_name(), " has no weights yet: load them first.");
  LoraSetup setup = with_new_adapter(model, name, "load_adapter");
  const auto [config, source] = open_adapter(directory);
  const AdapterTensors tensors = find_tensors(model, config, *source);
  LoraAdapter adapter{name, config, {}, adapter_dtype(model)};
  for (const auto& [path, layer] : tensors.layers) {
    const int64_t rank = source->info(layer.a).shape[0];
    adapter.targets.push_back({path, rank, config.scaling_of(layer.torch_path, rank), layer.is_table});
  }
  if (setup.adapters.empty()) setup.active = {{name, 1.0}};
  setup.adapters.push_back(adapter);
  const bool takes = config.takes_from_base();
  if (takes) {  // all of them, before the first weight changes
    for (const auto& [path, layer] : layers_of(model))
      require<NotSupportedError>(!adapter.find(path) || !layer.packed(), "[load_adapter] \"", path,
                                 "\" is quantized, and this adapter must be subtracted from the dense weight.");
  }
  change_setup(model, std::move(setup));
  // What training began with is taken off the base again; then come the weights that it ended with.
  const auto layers = layers_of(model);
  for (const LoraTarget& target : takes ? adapter.targets : std::vector<LoraTarget>())
    split_base(layers.at(target.path), target.path, find_weights(layers.at(target.path), name), target.scaling,
               config.init);
  bind_tensors(model, adapter, tensors, *source);
}

void reload_adapter(BaseModule& model, const fs::path& directory, const std::string& name) {
  const LoraAdapter& adapter = get_setup(model, "reload_adapter").at(name, "reload_adapter");
  const auto source = open_weights(directory);
  const AdapterTensors tensors = find_tensors(model, read_config(directory), *source);
  for (const LoraTarget& target : adapter.targets) {
    const auto found = tensors.layers.find(target.path);
    require<FormatError>(found != tensors.layers.end(), "[", source->where(), "] lacks the adapter of \"", target.path,
                         "\", which this model has.");
    const std::vector<int64_t>& shape = source->info(found->second.a).shape;
    require<ShapeError>(shape[0] == target.rank, "[", source->where(), "] the adapter of \"", target.path,
                        "\" has rank ", shape[0], "; this model's has ", target.rank, ".");
    require<FormatError>(adapter.config.use_dora == !found->second.magnitude.empty(), "[", source->where(),
                         "] use_dora differs from this model.");
  }
  require<FormatError>(tensors.layers.size() == adapter.targets.size(), "[", source->where(), "] has ",
                       tensors.layers.size(), " layers; this model's adapter has ", adapter.targets.size(), ".");
  bind_tensors(model, adapter, tensors, *source);
}

void save_adapter(const BaseModule& model, const fs::path& directory, const std::string& name,
                  const std::string& base_model) {
  get_setup(model, "save_adapter").at(name, "save_adapter");
  require<Error>(!model.is_lazy(), "[save_adapter] ", model.type_name(), " has no weights yet.");
  const auto parameters = model.named_parameters();
  std::map<std::string, int64_t> index;
  for (std::size_t i = 0; i < parameters.size(); ++i) index[parameters[i].path] = static_cast<int64_t>(i);
  WholeTensors whole([&](int64_t i) { return parameters[static_cast<std::size_t>(i)].parameter->whole(); },
                     model.parallel() ? &model.parallel()->everyone() : nullptr, model.options().device);
  whole.run(
      [&] {
        write_adapter(model, directory, name, base_model,
                      [&](const std::string& path) { return whole.get(index.at(path)); });
      },
      "save_adapter");
}

void write_adapter(const BaseModule& model, const fs::path& directory, const std::string& name,
                   const std::string& base_model, const std::function<at::Tensor(const std::string& path)>& whole) {
  const LoraAdapter& adapter = get_setup(model, "save_adapter").at(name, "save_adapter");
  const auto parameters = parameters_of(model);
  std::vector<TensorInfo> infos;
  std::map<std::string, std::string> paths;  // by the name in the file
  for (const auto& [path, key] : adapter_file_keys(model, adapter)) {
    const Parameter& parameter = *parameters.at(path);
    TensorInfo info = describe(key, parameter.value());
    info.shape = parameter.shape;
    info.nbytes = info.numel() * static_cast<int64_t>(parameter.value().element_size());
    infos.push_back(std::move(info));
    paths[key] = path;
  }
  make_directory(directory);
  save_safetensors(directory / kWeightsFile, infos,
                   [&](const TensorInfo& info) { return whole(paths.at(info.name)).detach(); });
  write_file_atomically(directory / kConfigFile, adapter_json(model, adapter, base_model).dump(2) + "\n");
}

}  // namespace easydel
