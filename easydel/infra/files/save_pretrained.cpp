#include "easydel/infra/files/save_pretrained.h"

#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/core/progress/progress.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/files/packed_files.h"
#include "easydel/infra/files/weights.h"
#include "easydel/infra/files/whole_tensors.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/hub/hub_push.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace fs = std::filesystem;

namespace {

// The parameters of a module, whole, for rank 0.
class WholeParameters {
 public:
  explicit WholeParameters(const BaseModule& module)
      : parameters_(module.named_parameters()),
        tensors_([this](int64_t index) { return parameters_[static_cast<std::size_t>(index)].parameter->whole(); },
                 module.parallel() ? &module.parallel()->everyone() : nullptr, module.options().device) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) index_[parameters_[i].path] = static_cast<int64_t>(i);
  }
  WholeParameters(const WholeParameters&) = delete;
  const at::Tensor& get(const std::string& path) { return tensors_.get(index_.at(path)); }
  WholeTensors& tensors() { return tensors_; }

 private:
  std::vector<Module::NamedParameter> parameters_;
  std::unordered_map<std::string, int64_t> index_;
  WholeTensors tensors_;
};

}  // namespace

void save_pretrained(const BaseModule& model, const fs::path& directory, const SaveOptions& options) {
  require<Error>(!model.is_lazy(), "[save_pretrained] ", model.type_name(),
                 " has no weights yet: it was created by lazy_init.");
  require<ConfigError>(options.push_to_hub || (options.repo_id.empty() && !options.token),
                       "[save_pretrained] repo_id and token are for push_to_hub, which is false.");
  if (options.push_to_hub) {
    SaveOptions save = options;
    save.push_to_hub = false;
    save.repo_id.clear();
    save.token.reset();
    const fs::path named = fs::absolute(directory).lexically_normal();
    push_to_hub(model,
                options.repo_id.empty() ? (named.has_filename() ? named : named.parent_path()).filename().string()
                                        : options.repo_id,
                {.token = options.token, .use_temp_dir = false, .directory = directory}, save);
    return;
  }
  WholeParameters parameters(model);
  parameters.tensors().run(
      [&] { write_files(model, directory, options, [&](const std::string& path) { return parameters.get(path); }); },
      "save_pretrained");
}

void write_files(const BaseModule& model, const fs::path& directory, const SaveOptions& options,
                 const std::function<at::Tensor(const std::string& path)>& whole) {
  const fs::path target = options.step ? directory / concat("run-", *options.step) : directory;
  std::error_code error;
  fs::create_directories(target, error);
  require<IoError>(!error, "[", target.string(), "] cannot be created: ", error.message(), ".");

  std::vector<SavedTensor> saved = saved_tensors(model);
  std::unordered_map<std::string, FileTensor> extra_tensors;
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string, const SavedTensor*> by_name;
  int64_t bytes = 0;
  for (SavedTensor& tensor : saved) {
    if (!options.mismatch_allowed && !tensor.has_fixed_dtype) {
      require<ConfigError>(tensor.info.dtype == model.param_dtype(), "[save_pretrained] \"", tensor.path, "\" is ",
                           dtype_name(tensor.info.dtype), ", but the module stores ", dtype_name(model.param_dtype()),
                           ".");
    }
    if (options.float_dtype && at::isFloatingType(tensor.info.dtype) && !tensor.has_fixed_dtype) {
      tensor.info.dtype = *options.float_dtype;
      tensor.info.nbytes = tensor.info.numel() * static_cast<int64_t>(c10::elementSize(*options.float_dtype));
    }
    bytes += tensor.info.nbytes;
    infos.push_back(tensor.info);
    by_name.emplace(tensor.info.name, &tensor);
  }

  std::unique_ptr<BaseConfig> config = model.config().clone();
  for (const auto& transform : model.transforms()) {
    const auto* in_files = dynamic_cast<const FileTransform*>(transform.get());
    if (in_files == nullptr) continue;
    in_files->describe(model, *config);
    for (FileTensor& tensor : in_files->extra_tensors(model)) {
      infos.push_back(tensor.info);
      extra_tensors.emplace(tensor.info.name, std::move(tensor));
    }
  }
  config->architectures = {model.type_name()};
  config->dtype = options.float_dtype.value_or(model.module_dtype());
  Progress progress("saving " + target.string(), {.total = bytes, .unit = "B", .enabled = options.verbose});
  save_checkpoint(target, infos,
                  [&](const TensorInfo& info) {
                    if (const auto extra = extra_tensors.find(info.name); extra != extra_tensors.end())
                      return extra->second.make(whole);
                    const SavedTensor& tensor = *by_name.at(info.name);
                    progress.advance(tensor.info.nbytes);
                    return cut(whole(tensor.path), tensor.piece).to(info.dtype);
                  },
                  {.max_shard_size = options.max_shard_size});
  config->save_pretrained(target);
  model.companions().write(target);
}

std::string push_to_hub(const BaseModule& model, const std::string& repo_id, const PushOptions& options,
                        const SaveOptions& save) {
  if (model.parallel() && model.parallel()->mesh().rank() != 0) {
    save_pretrained(model, {}, save);  // helps rank 0, which pushes
    return "";
  }
  bool saving = false;
  CommitInfo commit;
  try {
    commit = push_to_hub(
        repo_id,
        [&](const fs::path& directory) {
          saving = true;
          save_pretrained(model, directory, save);
        },
        options);
  } catch (...) {
    if (!saving) WholeParameters(model).tensors().abandon();  // the others wait to help
    throw;
  }
  return commit.pull_request_url.empty() ? commit.repo_url : commit.pull_request_url;
}

}  // namespace easydel
