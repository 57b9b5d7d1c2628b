// BaseModule to Hugging Face's files, and to the hub.
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
#include "easydel/tokenizers/auto_tokenizer.h"

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

void BaseModule::save_pretrained(const fs::path& directory, const SaveOptions& options) const {
  require<Error>(!is_lazy(), "[save_pretrained] ", type_name(), " has no weights yet: it was made by lazy_init.");
  require<ConfigError>(options.push_to_hub || (options.repo_id.empty() && !options.token),
                       "[save_pretrained] repo_id and token are for push_to_hub, which is false.");
  if (options.push_to_hub) {
    SaveOptions save = options;
    save.push_to_hub = false;
    save.repo_id.clear();
    save.token.reset();
    const fs::path named = fs::absolute(directory).lexically_normal();
    push_to_hub(options.repo_id.empty() ? (named.has_filename() ? named : named.parent_path()).filename().string()
                                        : options.repo_id,
                {.token = options.token, .use_temp_dir = false, .directory = directory}, save);
    return;
  }
  WholeParameters parameters(*this);
  parameters.tensors().run(
      [&] { write_files(directory, options, [&](const std::string& path) { return parameters.get(path); }); },
      "save_pretrained");
}

void BaseModule::write_files(const fs::path& directory, const SaveOptions& options,
                             const std::function<at::Tensor(const std::string& path)>& whole) const {
  const fs::path target = options.step ? directory / concat("run-", *options.step) : directory;
  std::error_code error;
  fs::create_directories(target, error);
  require<IoError>(!error, "[", target.string(), "] cannot be made: ", error.message(), ".");

  std::vector<SavedTensor> saved = saved_tensors(*this);
  std::unordered_map<std::string, FileTensor> extra_tensors;
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string, const SavedTensor*> by_name;
  int64_t bytes = 0;
  for (SavedTensor& tensor : saved) {
    if (!options.mismatch_allowed && !tensor.has_fixed_dtype) {
      require<ConfigError>(tensor.info.dtype == options_.param_dtype, "[save_pretrained] \"", tensor.path, "\" is ",
                           dtype_name(tensor.info.dtype), ", but the module stores ", dtype_name(options_.param_dtype),
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

  std::unique_ptr<BaseConfig> config = config_->clone();
  for (const auto& transform : transforms_) {
    const auto* in_files = dynamic_cast<const FileTransform*>(transform.get());
    if (in_files == nullptr) continue;
    in_files->describe(*this, *config);
    for (FileTensor& tensor : in_files->extra_tensors(*this)) {
      infos.push_back(tensor.info);
      extra_tensors.emplace(tensor.info.name, std::move(tensor));
    }
  }
  config->architectures = {type_name()};
  config->dtype = options.float_dtype.value_or(module_dtype());
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
  companions_->write(target);
}

void BaseModule::set_companions(std::shared_ptr<const Companions> companions) {
  companions_ = companions ? std::move(companions) : std::make_shared<const Companions>();
}

BaseModule& BaseModule::set_tokenizer(const AutoTokenizer& tokenizer) {
  Companions changed = *companions_;
  changed.tokenizer = tokenizer.files();
  set_companions(std::make_shared<const Companions>(std::move(changed)));
  return *this;
}

std::string BaseModule::push_to_hub(const std::string& repo_id) const { return push_to_hub(repo_id, PushOptions()); }

std::string BaseModule::push_to_hub(const std::string& repo_id, const PushOptions& options,
                                    const SaveOptions& save) const {
  if (parallel() && parallel()->mesh().rank() != 0) {
    save_pretrained({}, save);  // helps rank 0, which pushes
    return "";
  }
  bool saving = false;
  CommitInfo commit;
  try {
    commit = easydel::push_to_hub(
        repo_id,
        [&](const fs::path& directory) {
          saving = true;
          save_pretrained(directory, save);
        },
        options);
  } catch (...) {
    if (!saving) WholeParameters(*this).tensors().abandon();  // the others wait to help
    throw;
  }
  return commit.pull_request_url.empty() ? commit.repo_url : commit.pull_request_url;
}

}  // namespace easydel
