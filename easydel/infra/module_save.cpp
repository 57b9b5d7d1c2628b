// BaseModule to Hugging Face's files, and to the hub.
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/core/progress.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/weights.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/hub_push.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace fs = std::filesystem;

namespace {

// Rank 0 writes; for each parameter that it needs, all ranks gather it, so nobody holds more than one whole at a time.
class WholeParameters {
 public:
  explicit WholeParameters(const BaseModule& module) : module_(module), parameters_(module.named_parameters()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) index_[parameters_[i].path] = static_cast<int64_t>(i);
    if (module.parallel()) group_ = &module.parallel()->everyone();
  }
  bool writes() const { return !group_ || group_->rank() == 0; }

  const at::Tensor& get(const std::string& path) {
    const int64_t index = index_.at(path);
    if (index != last_) {
      whole_.reset();
      tell(index);
      whole_ = parameters_[static_cast<std::size_t>(index)].parameter->whole();
      last_ = index;
    }
    return whole_;
  }
  void finish() { tell(kDone); }
  void abandon() { tell(kFailed); }

  // On the other ranks: until rank 0 is done. DistributedError when it failed.
  void serve() const {
    for (;;) {
      const at::Tensor index = at::empty({1}, options());
      group_->broadcast(index, 0);
      const int64_t wanted = index.item<int64_t>();
      if (wanted == kDone) return;
      require<DistributedError>(wanted != kFailed, "[save_pretrained] rank 0 could not save; its error says why.");
      parameters_[static_cast<std::size_t>(wanted)].parameter->whole();
    }
  }

 private:
  static constexpr int64_t kDone = -1, kFailed = -2;
  at::TensorOptions options() const { return at::TensorOptions(at::kLong).device(module_.options().device); }
  void tell(int64_t what) const {
    if (group_) group_->broadcast(at::full({1}, what, options()), 0);
  }

  const BaseModule& module_;
  std::vector<Module::NamedParameter> parameters_;
  std::unordered_map<std::string, int64_t> index_;
  const Group* group_ = nullptr;
  at::Tensor whole_;
  int64_t last_ = -1;
};

}  // namespace

void BaseModule::save_pretrained(const fs::path& directory, const SaveOptions& options) const {
  require<Error>(!is_lazy(), "[save_pretrained] ", type_name(), " has no weights yet: it was made by lazy_init.");
  WholeParameters parameters(*this);
  if (!parameters.writes()) return parameters.serve();
  try {
    write_files(directory, options, [&](const std::string& path) { return parameters.get(path); });
  } catch (const DistributedError&) {
    throw;  // the others know
  } catch (...) {
    parameters.abandon();
    throw;
  }
  parameters.finish();
}

void BaseModule::write_files(const fs::path& directory, const SaveOptions& options,
                             const std::function<at::Tensor(const std::string& path)>& whole) const {
  const fs::path target = options.step ? directory / concat("run-", *options.step) : directory;
  std::error_code error;
  fs::create_directories(target, error);
  require<IoError>(!error, "[", target.string(), "] cannot be made: ", error.message(), ".");

  std::vector<SavedTensor> saved = saved_tensors(*this);
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string, const SavedTensor*> by_name;
  int64_t bytes = 0;
  for (SavedTensor& tensor : saved) {
    if (!options.mismatch_allowed) {
      require<ConfigError>(tensor.info.dtype == options_.param_dtype, "[save_pretrained] \"", tensor.path, "\" is ",
                           dtype_name(tensor.info.dtype), ", but the module stores ", dtype_name(options_.param_dtype),
                           ".");
    }
    if (options.float_dtype && at::isFloatingType(tensor.info.dtype)) {
      tensor.info.dtype = *options.float_dtype;
      tensor.info.nbytes = tensor.info.numel() * static_cast<int64_t>(c10::elementSize(*options.float_dtype));
    }
    bytes += tensor.info.nbytes;
    infos.push_back(tensor.info);
    by_name.emplace(tensor.info.name, &tensor);
  }

  std::unique_ptr<BaseConfig> config = config_->clone();
  config->architectures = {type_name()};
  config->dtype = options.float_dtype.value_or(module_dtype());
  Progress progress("saving " + target.string(), {.total = bytes, .unit = "B", .enabled = options.verbose});
  save_checkpoint(target, infos,
                  [&](const TensorInfo& info) {
                    const SavedTensor& tensor = *by_name.at(info.name);
                    progress.advance(tensor.info.nbytes);
                    return cut(whole(tensor.path), tensor.piece).to(info.dtype);
                  },
                  {.max_shard_size = options.max_shard_size});
  config->save_pretrained(target);
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
    if (!saving) WholeParameters(*this).abandon();  // the others wait to help
    throw;
  }
  return commit.pull_request_url.empty() ? commit.repo_url : commit.pull_request_url;
}

}  // namespace easydel
