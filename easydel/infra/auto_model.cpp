#include "easydel/infra/auto_model.h"

#include "easydel/core/device.h"
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/core/progress/progress.h"
#include "easydel/core/runtime.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/config_notes.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/files/gguf_model.h"
#include "easydel/infra/files/packed_files.h"
#include "easydel/infra/files/text_files.h"
#include "easydel/infra/files/text_part.h"
#include "easydel/infra/files/tied_weights.h"
#include "easydel/infra/files/weights.h"
#include "easydel/infra/hooks.h"
#include "easydel/infra/registry.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/hub/hub.h"
#include "easydel/io/read_view.h"
#include "easydel/io/safetensors/safetensors.h"

namespace easydel {
namespace {

// The same tensors; each that is read advances the progress bar.
class CountedSource final : public TensorSource {
 public:
  CountedSource(std::shared_ptr<const TensorSource> files, Progress& progress)
      : TensorSource(files->where(), *files), files_(std::move(files)), progress_(progress) {}
  void copy(const at::Tensor& view, const at::Tensor& out) const override { files_->copy(view, out); }

 private:
  at::Tensor load(const TensorInfo& info) const override {
    progress_.advance(info.nbytes);
    return files_->tensor(info);
  }

  std::shared_ptr<const TensorSource> files_;
  Progress& progress_;
};

void refuse_what_is_missing(const LoadOptions& options) {
  const auto later = [](bool asked, std::string_view what, std::string_view why) {
    require<NotSupportedError>(!asked, "[from_pretrained] ", what, " is not yet supported: ", why);
  };
  later(!options.platform.empty() && options.platform != "torch", concat("platform \"", options.platform, "\""),
        "kernels are torch's and this library's own; leave it empty.");
}

// from_torch = false: what save_pretrained wrote, in this library or in EasyDeL since it writes Hugging Face's files.
void require_own_files(const Checkpoint* checkpoint, const std::filesystem::path& directory) {
  bool own = checkpoint != nullptr;
  for (std::size_t i = 0; own && i < checkpoint->files().size(); ++i)
    own = dynamic_cast<const SafetensorsFile*>(checkpoint->files()[i].get()) != nullptr;
  require<ConfigError>(own, "[from_pretrained] from_torch = false reads what save_pretrained wrote, safetensors; ",
                       directory.string(), " has other files. Leave from_torch as it is.");
}

at::Device pick_device(const LoadOptions& options) {
  if (options.backend.empty()) return options.device;
  require<ConfigError>(options.backend == "cpu" || options.backend == "gpu",
                       "[from_pretrained] backend must be cpu or gpu; got \"", options.backend, "\".");
  return options.backend == "gpu" ? at::Device(at::kCUDA, options.device.is_cuda() ? options.device.index() : 0)
                                  : at::Device(at::kCPU);
}

Json changes_of(const LoadOptions& options) {
  Json changes = options.config_kwargs.is_null() ? Json::object() : options.config_kwargs;
  const Json sharding = config_changes(options.sharding);
  for (const auto& [key, value] : sharding.as_object()) changes[key] = value;
  return changes;
}

// The weights are views of the whole files, as far as one can tell before there is a module.
bool stays_mapped(const BaseConfig& config, at::Device device, const LoadOptions& options) {
  const bool packs = options.load_in_8bit || options.quantization_config || !config.quantization.weights.is_null();
  return device.is_cpu() && !packs && World::current()->size() == 1;
}

}  // namespace

std::shared_ptr<BaseModule> init_model(const BaseConfig& config, TaskType task, const ModuleOptions& options) {
  log_config_notes(config);
  std::shared_ptr<BaseModule> module = Registry::instance().make_module(config, task);
  require_device(options.device);
  module->initialize(options);
  return module;
}

ConfigFile read_config_of(const std::string& class_name, std::string_view model_type, const std::string& directory,
                          const ConfigOptions& options) {
  ConfigFile file = load_config_file(directory, options);
  const Json* found = options.overrides.find("model_type");
  if (!found) {
    found = file.json.find("model_type");
    const TextPart* part =
        found && found->is_string() && found->as_string() != model_type ? find_text_part(found->as_string()) : nullptr;
    Json text = part ? text_config_of(*part, file.json, concat("[", class_name, "] ", file.path, ": ")) : Json();
    if (part && text.at("model_type").as_string() == model_type) {
      file.json = std::move(text);
      return file;
    }
  }
  require<ConfigError>(found && found->is_string() && found->as_string() == model_type, "[", class_name, "] ",
                       file.path, " must be of model_type \"", model_type, "\"; got ", found ? found->dump() : "none",
                       ". AutoModelForCausalLM and its like pick the class.");
  return file;
}

std::shared_ptr<BaseModule> load_model(const std::string& name_or_path, TaskType task, const LoadOptions& options) {
  const ModelClass of_task{
      .read_config = [task](const std::string& directory,
                            const ConfigOptions& changes) { return AutoConfig::for_task(task, directory, changes); },
      .make = [task](const BaseConfig& config) { return Registry::instance().make_module(config, task); }};
  return load_model(name_or_path, of_task, options);
}

std::shared_ptr<BaseModule> load_model(const std::string& name_or_path, const ModelClass& model_class,
                                       const LoadOptions& options) {
  refuse_what_is_missing(options);
  const at::Device device = pick_device(options);
  require_device(device);  // before anything is downloaded or read
  const std::filesystem::path directory = resolve(name_or_path, {.revision = options.revision, .token = options.token});
  std::unique_ptr<BaseConfig> config = model_class.read_config(directory.string(), {.overrides = changes_of(options)});
  config->name_or_path = name_or_path;
  if (World::current()->rank() == 0) log_config_notes(*config);
  const auto gguf = find_gguf(directory);
  if (gguf && (options.load_in_8bit || options.quantization_config)) config->quantization.weights = Json();
  const auto files = gguf ? nullptr : Checkpoint::open(directory);
  const auto text = files && is_text_part(*config, directory) ? TextFiles::open(files) : nullptr;
  if (text) untie_different_head(*config, *text);
  if (!options.from_torch) require_own_files(files.get(), directory);
  const bool is_cached = !files || files->is_cached();
  const bool fetches = !is_cached && files->nbytes() < available_memory(at::kCPU).value_or(INT64_MAX);
  if (files && !text && is_cached && stays_mapped(*config, device, options)) files->prefault_pages();
  std::shared_ptr<BaseModule> module = model_class.make(*config);
  module->set_companions(std::make_shared<const Companions>(Companions::read(gguf ? *gguf : directory)));
  const std::shared_ptr<const TensorSource> checkpoint =
      gguf   ? std::shared_ptr<const TensorSource>(GgufModel::open(*gguf, !config->quantization.weights.is_null()))
      : text ? std::shared_ptr<const TensorSource>(text)
             : files;
  Progress progress(
      "loading " + name_or_path,
      {.total = checkpoint->nbytes(), .unit = "B", .enabled = options.verbose && World::current()->rank() == 0});
  if (files) {
    if (auto untied = untie_what_differs(*module, *checkpoint)) module->transform(std::move(untied));
  }
  if (auto packing = require_hook(hooks().packing_at_load, "packing_at_load")(*module, options, checkpoint))
    module->transform(std::move(packing));
  module->set_options({.dtype = options.dtype,
                       .param_dtype = options.param_dtype,
                       .precision = parse_precision(options.precision),
                       .rngs = options.rngs,
                       .device = device});
  if (options.sharding.auto_shard_model.value_or(false) || options.auto_shard_params)
    place_parameters(*module, options.partition_rules, World::current());
  LoadedWeights weights = load_weights(
      *module, *adapt_source(*module, std::make_shared<const CountedSource>(checkpoint, progress)),
      [&](const at::Tensor& t, const Parameter& parameter) {
        if (fetches) fetch(t);
        require<FormatError>(!at::isComplexType(t.scalar_type()), "[", checkpoint->where(),
                             "] weights must be real numbers; got ", dtype_name(t.scalar_type()), ".");
        const DType dtype =
            at::isFloatingType(t.scalar_type()) ? parameter.dtype_in(options.param_dtype) : t.scalar_type();
        return t.device() == device && t.scalar_type() == dtype ? t : t.to(device, dtype);
      },
      options.shard_fns);
  progress.finish();
  bind_weights(*module, std::move(weights), checkpoint->where());
  if (options.verbose_params) log::info(module->type_name(), ": ", group_digits(module->num_params()), " parameters");
  return module;
}

}  // namespace easydel
