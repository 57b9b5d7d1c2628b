#include "easydel/io/convert_checkpoint.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::array<DType, 4> kWeightTypes = {float64, float32, float16, bfloat16};

bool is_weight_type(DType dtype) {
  return std::find(kWeightTypes.begin(), kWeightTypes.end(), dtype) != kWeightTypes.end();
}

at::Tensor cast(const at::Tensor& tensor, DType dtype, const std::string& name) {
  if (tensor.scalar_type() == dtype) return tensor;
  const at::Tensor result = tensor.to(dtype);
  if (dtype == float16 && !result.isfinite().all().item<bool>() && tensor.isfinite().all().item<bool>()) {
    log::warning("[convert] tensor ", quoted(name), " has values out of range for float16; they became infinite.");
  }
  return result;
}

// The files of a model directory other than the weights, not derived from them.
bool comes_along(const std::string& name) {
  if (name.ends_with(".index.json")) return false;
  for (const char* suffix : {".json", ".txt", ".model", ".jinja", ".tiktoken"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

std::string with_dtype(const std::string& config, DType dtype, bool was_packed, const std::string& where) {
  Json json = Json::parse(config, {.where = where});
  bool changed = was_packed && json.is_object() && json.as_object().erase("quantization_config");
  for (const char* key : {"dtype", "torch_dtype"}) {  // transformers wrote torch_dtype until version 5
    if (!json.contains(key)) continue;
    json[key] = dtype_name(dtype);
    changed = true;
  }
  return changed ? json.dump(2) + "\n" : config;
}

void copy_companions(const fs::path& source, const fs::path& destination, const std::optional<DType>& dtype,
                     bool was_packed) {
  for (const std::string& name : list_directory(source)) {
    if (!comes_along(name) || !fs::is_regular_file(source / name)) continue;
    const std::string content = read_file(source / name);
    const bool is_config = dtype && name == "config.json";
    write_file_atomically(destination / name,
                          is_config ? with_dtype(content, *dtype, was_packed, (source / name).string()) : content);
  }
}

void check_destination(const fs::path& source, const fs::path& destination, bool overwrite) {
  std::error_code ignored;
  require<ConfigError>(!fs::equivalent(source, destination, ignored),
                       "[convert] source and destination must differ; got ", source.string(), " for both.");
  for (const char* suffix : {".gguf", ".bin", ".pt", ".pth"}) {
    require<ConfigError>(destination.extension() != suffix, "[convert] ", suffix, " files cannot be written; got ",
                         destination.string(), ". Pass a directory, or a file that ends in .safetensors.");
  }
  const bool is_taken =
      fs::is_directory(destination, ignored) ? !fs::is_empty(destination, ignored) : fs::exists(destination, ignored);
  require<ConfigError>(overwrite || !is_taken, "[convert] ", destination.string(),
                       " already exists. Choose another path, or pass --overwrite.");
}

// The quantization_config of config.json; null when absent.
Json quantization_of(const fs::path& source) {
  std::error_code ignored;
  const fs::path config = (fs::is_directory(source, ignored) ? source : source.parent_path()) / "config.json";
  if (!fs::exists(config, ignored)) return {};
  const Json json = Json::parse_file(config.string());
  const Json* found = json.find("quantization_config");
  return found ? *found : Json();
}

std::shared_ptr<const TensorSource> dense_tensors(const std::shared_ptr<const Checkpoint>& checkpoint,
                                                  const fs::path& source, const ConvertOptions& options) {
  if (!options.dtype) return checkpoint;
  const Json quantization = quantization_of(source);
  if (options.dequantize) return options.dequantize(checkpoint, quantization);
  require<NotSupportedError>(quantization.is_null(), "[convert] ", source.string(),
                             " has packed weights: its config.json has a quantization_config. Do not pass a dtype.");
  return checkpoint;
}

}  // namespace

std::vector<fs::path> convert_checkpoint(const fs::path& source, const fs::path& destination,
                                         const ConvertOptions& options) {
  require<ConfigError>(!options.dtype || is_weight_type(*options.dtype),
                       "[convert] dtype must be float64, float32, float16 or bfloat16; got ",
                       options.dtype ? dtype_name(*options.dtype) : "", ".");
  check_destination(source, destination, options.overwrite);
  const auto checkpoint = Checkpoint::open(source);
  require<FormatError>(!checkpoint->infos().empty(), "[", checkpoint->where(), "] contains no tensors.");
  const std::shared_ptr<const TensorSource> tensors = dense_tensors(checkpoint, source, options);
  std::vector<TensorInfo> infos;
  SafetensorsMetadata ties;
  for (TensorInfo info : tensors->infos()) {
    if (!info.tied_to.empty() && tensors->contains(info.tied_to)) {
      ties.emplace(info.name, info.tied_to);
      continue;
    }
    if (options.dtype && is_weight_type(info.dtype)) info.dtype = *options.dtype;
    infos.push_back(std::move(info));
  }
  Progress progress("converting", {.total = tensors->nbytes(), .unit = "B", .enabled = options.show_progress});
  const TensorProducer produce = [&](const TensorInfo& info) {
    at::Tensor tensor = cast(tensors->tensor(info.name), info.dtype, info.name);
    progress.advance(tensors->info(info.name).nbytes);
    return tensor;
  };
  if (destination.extension() == ".safetensors") {
    ties.insert(kTorchMetadata.begin(), kTorchMetadata.end());
    save_safetensors(destination, std::move(infos), produce, ties);
    return {destination};
  }
  const auto paths = save_checkpoint(destination, std::move(infos), produce,
                                     {.max_shard_size = options.max_shard_size, .metadata = std::move(ties)});
  if (fs::is_directory(source)) copy_companions(source, destination, options.dtype, tensors != checkpoint);
  return paths;
}

}  // namespace easydel
