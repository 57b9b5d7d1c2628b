#include "easydel/io/checkpoint_writer.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/log.h"
#include "easydel/core/text/bytes.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/safetensors/safetensors_dtype.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

using Shard = std::vector<TensorInfo>;

void require_new(bool is_new, std::string_view name) {
  require<ConfigError>(is_new, "[save_checkpoint] tensor names must be unique; got ", quoted(name), " twice.");
}

// Splits as huggingface_hub does: in order, a new file when the next tensor would not fit, and a separate file for a
// tensor that exceeds the limit by itself.
std::vector<Shard> split(std::vector<TensorInfo> tensors, int64_t max_bytes) {
  std::vector<Shard> shards;
  Shard current;
  int64_t current_bytes = 0;
  for (TensorInfo& info : tensors) {
    const int64_t bytes = info.numel() * safetensors_dtype(info.dtype).bytes;
    if (bytes > max_bytes) {
      shards.push_back({std::move(info)});
      continue;
    }
    if (current_bytes + bytes > max_bytes) {
      shards.push_back(std::exchange(current, {}));
      current_bytes = 0;
    }
    current_bytes += bytes;
    current.push_back(std::move(info));
  }
  if (!current.empty() || shards.empty()) shards.push_back(std::move(current));
  return shards;
}

// `stage` marks temporary names, used until the checkpoint is in place.
std::vector<std::string> shard_names(std::size_t count, const std::string& stage) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= count; ++i) {
    char number[64];
    std::snprintf(number, sizeof number, "-%05zu-of-%05zu", i, count);
    names.push_back(concat("model", number, stage, ".safetensors"));
  }
  return names;
}

// Removes the files of earlier saves in the directory, except `keep`; an index is removed before the files it names.
void remove_others(const fs::path& directory, const std::set<std::string>& keep) {
  static const std::regex kOurs(
      R"(model(-\d{5,}-of-\d{5,})?(\.stage-\d+)?\.safetensors(\.index\.json)?(\.tmp-\d+-\d+)?)");
  std::vector<std::string> found = list_directory(directory);
  std::erase_if(found, [&](const std::string& name) { return keep.contains(name) || !std::regex_match(name, kOurs); });
  std::stable_partition(found.begin(), found.end(), [](const std::string& name) { return name == kIndex; });
  for (const std::string& name : found) remove_file(directory / name);
  if (!found.empty()) sync_directory(directory);
}

std::string unused_stage(const fs::path& directory) {
  const std::vector<std::string> names = list_directory(directory);
  for (int i = 0;; ++i) {
    const std::string stage = concat(".stage-", i);
    const auto uses = [&](const std::string& name) { return name.find(stage + ".") != std::string::npos; };
    if (std::none_of(names.begin(), names.end(), uses)) return stage;
  }
}

// New files, removed again unless the save reaches the index, which may name them even if writing it fails.
class NewFiles {
 public:
  explicit NewFiles(fs::path directory) : directory_(std::move(directory)) {}
  ~NewFiles() {
    std::error_code ignored;
    for (const std::string& name : names_) fs::remove(directory_ / name, ignored);
  }
  void add(const std::string& name) { names_.push_back(name); }
  void keep() { names_.clear(); }

 private:
  fs::path directory_;
  std::vector<std::string> names_;
};

void write_index(const fs::path& directory, const std::vector<Shard>& shards, const std::vector<std::string>& names,
                 const SafetensorsMetadata& metadata) {
  int64_t total_size = 0;
  Json weight_map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TensorInfo& info : shards[i]) {
      total_size += info.numel() * safetensors_dtype(info.dtype).bytes;
      weight_map[info.name] = names[i];
    }
  }
  Json about = Json::object({{"total_size", total_size}});
  for (const auto& [key, value] : metadata) about[key] = value;
  const Json index = Json::object({{"metadata", std::move(about)}, {"weight_map", std::move(weight_map)}});
  write_file_atomically(directory / kIndex, index.dump(2));
}

// The files of the checkpoint in place get their final names: a hard link for each, then an index with the new names,
// then the old names are removed.
bool rename_shards(const fs::path& directory, const std::vector<Shard>& shards, const std::vector<std::string>& from,
                   const std::vector<std::string>& to, const SafetensorsMetadata& metadata) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::error_code code;
    fs::create_hard_link(directory / from[i], directory / to[i], code);
    if (code) {
      log::info("[", directory.string(), "] files keep names such as ", from[i],
                ", because hard links are not available here: ", code.message(), ".");
      return false;
    }
  }
  sync_directory(directory);
  write_index(directory, shards, to, metadata);
  return true;
}

// Equal for tensors that are the same view: the same elements of the same memory in the same order.
using Identity = std::tuple<const void*, DType, std::vector<int64_t>, std::vector<int64_t>, bool, bool>;

std::optional<Identity> identity_of(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.is_meta() || tensor.numel() == 0) return std::nullopt;
  return Identity{tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(),
                  tensor.strides().vec(),  tensor.is_conj(),     tensor.is_neg()};
}

}  // namespace

std::vector<fs::path> save_checkpoint(const fs::path& directory, std::vector<TensorInfo> tensors,
                                      const TensorProducer& produce, const SaveCheckpointOptions& options) {
  const int64_t max_bytes = parse_bytes(options.max_shard_size);
  require<ConfigError>(max_bytes > 0, "[save_checkpoint] max_shard_size must be positive; got \"",
                       options.max_shard_size, "\".");
  std::unordered_set<std::string_view> names_seen;
  for (const TensorInfo& info : tensors) require_new(names_seen.insert(info.name).second, info.name);
  make_directory(directory);
  const std::vector<Shard> shards = split(std::move(tensors), max_bytes);
  if (shards.size() == 1) {
    SafetensorsMetadata metadata = kTorchMetadata;
    metadata.insert(options.metadata.begin(), options.metadata.end());
    save_safetensors(directory / kSingle, shards[0], produce, metadata);
    remove_others(directory, {kSingle});
    return {directory / kSingle};
  }

  const std::vector<std::string> final_names = shard_names(shards.size(), "");
  const bool taken = std::any_of(final_names.begin(), final_names.end(),
                                 [&](const std::string& name) { return fs::exists(directory / name); });
  std::vector<std::string> names = taken ? shard_names(shards.size(), unused_stage(directory)) : final_names;
  NewFiles new_files(directory);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    save_safetensors(directory / names[i], shards[i], produce);
    new_files.add(names[i]);
  }
  new_files.keep();
  write_index(directory, shards, names, options.metadata);
  const auto keep_only = [&] {
    std::set<std::string> keep(names.begin(), names.end());
    keep.insert(kIndex);
    remove_others(directory, keep);
  };
  keep_only();
  if (taken && rename_shards(directory, shards, names, final_names, options.metadata)) {
    names = final_names;
    keep_only();
  }
  std::vector<fs::path> paths{directory / kIndex};
  for (const std::string& name : names) paths.push_back(directory / name);
  return paths;
}

std::vector<fs::path> save_checkpoint(const fs::path& directory, const NamedTensors& tensors,
                                      const SaveCheckpointOptions& options) {
  SaveCheckpointOptions with_ties = options;
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string_view, const at::Tensor*> by_name;
  std::map<Identity, std::string> first_names;
  for (const auto& [name, tensor] : tensors) {
    require_new(by_name.emplace(name, &tensor).second, name);
    if (const std::optional<Identity> identity = identity_of(tensor)) {
      const auto [first, is_new] = first_names.try_emplace(*identity, name);
      if (!is_new) {
        with_ties.metadata.emplace(name, first->second);
        continue;
      }
    }
    infos.push_back(describe(name, tensor));
  }
  return save_checkpoint(
      directory, std::move(infos), [&](const TensorInfo& info) { return *by_name.at(info.name); }, with_ties);
}

}  // namespace easydel
