#include "easydel/io/checkpoint.h"

#include <algorithm>
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/files/mapped_file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/log.h"
#include "easydel/io/gguf/gguf_file.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/torch/torch_file.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kIndexSuffix = ".index.json";
constexpr int64_t kMaxIndex = 100'000'000;  // bytes, as for the header of a file

bool has_suffix(const fs::path& path, std::string_view suffix) { return path.string().ends_with(suffix); }

struct Format {
  std::string_view suffix;
  std::string_view name;  // Hugging Face's, for a model in one file; with .index.json appended for several
  std::shared_ptr<const TensorSource> (*open)(const fs::path& path);
};

template <class File>
std::shared_ptr<const TensorSource> open_file(const fs::path& path) {
  return File::open(path);
}

// The formats of a checkpoint, best first.
constexpr Format kFormats[] = {
    {".safetensors", "model.safetensors", open_file<SafetensorsFile>},
    {".bin", "pytorch_model.bin", open_file<TorchFile>},
    {".pth", "", open_file<TorchFile>},
    {".pt", "", open_file<TorchFile>},
    {".gguf", "", open_file<GgufFile>},
};

std::string known_suffixes() {
  std::string known;
  for (const Format& format : kFormats) known += concat(known.empty() ? "" : ", ", format.suffix);
  return known;
}

const Format& format_of(const fs::path& path) {
  for (const Format& format : kFormats) {
    if (has_suffix(path, format.suffix)) return format;
  }
  fail<FormatError>("[", path.string(), "] is not a readable tensor file; known: ", known_suffixes(), ".");
}

fs::path find_in_directory(const fs::path& directory) {
  for (const Format& format : kFormats) {
    if (format.name.empty()) continue;
    for (const std::string_view suffix : {std::string_view(), kIndexSuffix}) {
      fs::path path = directory / concat(format.name, suffix);
      if (fs::exists(path)) return path;
    }
  }
  for (const Format& format : kFormats) {
    std::vector<std::string> found = list_directory(directory);
    std::erase_if(found, [&](const std::string& name) { return !name.ends_with(format.suffix); });
    if (found.size() == 1) return directory / found[0];
    require<IoError>(found.empty(), "[", directory.string(), "] has ", found.size(), " ", format.suffix,
                     " files but no ", format.name.empty() ? "index" : concat(format.name, kIndexSuffix),
                     " that says which belong together. Pass one file instead.");
  }
  fail<IoError>("[", directory.string(), "] contains no checkpoint; looked for ", known_suffixes(), ".");
}

// The index comes with the checkpoint, so its file names are untrusted: no absolute path, no "..", and the same format
// as the index itself, on any system.
void check_shard_name(const std::string& shard, const std::string& tensor, const Format& format,
                      const std::string& where) {
  bool inside =
      !shard.empty() && shard.front() != '/' && shard.find_first_of(std::string("\\:\0", 3)) == std::string::npos;
  for (const fs::path& part : fs::path(shard)) inside = inside && part != "..";
  require<FormatError>(inside, "[", where, "] the file of tensor ", Json(tensor).dump(),
                       " must be a path inside the checkpoint's directory; got ", Json(shard).dump(), ".");
  require<FormatError>(shard.ends_with(format.suffix), "[", where, "] the file of tensor ", Json(tensor).dump(),
                       " must be a ", format.suffix, " file; got ", Json(shard).dump(), ".");
}

Json::Object read_weight_map(const fs::path& path) {
  const std::string where = path.string();
  std::error_code missing;
  const auto size = fs::file_size(path, missing);
  require<FormatError>(missing || size <= kMaxIndex, "[", where, "] an index has at most ", kMaxIndex,
                       " bytes; this one has ", size, ".");
  Json index = Json::parse(easydel::read_file(path), {.where = where, .reject_duplicate_keys = true, .max_depth = 16});
  require<FormatError>(index.contains("weight_map") && index.at("weight_map").is_object(), "[", where,
                       "] an index must have an object \"weight_map\", which names the file of each tensor.");
  return std::move(index["weight_map"].as_object());
}

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::open(const fs::path& path) {
  require<IoError>(fs::exists(path), "[", path.string(), "] does not exist.");
  const fs::path main = fs::is_directory(path) ? find_in_directory(path) : path;
  return std::shared_ptr<const Checkpoint>(has_suffix(main, kIndexSuffix)
                                               ? new Checkpoint(main.string(), read_index(main))
                                               : new Checkpoint(main.string(), format_of(main).open(main)));
}

Checkpoint::Contents Checkpoint::read_index(const fs::path& path) {
  const std::string where = path.string();
  const Format& format = format_of(where.substr(0, where.size() - kIndexSuffix.size()));
  const Json::Object weight_map = read_weight_map(path);
  Contents contents;
  std::unordered_map<std::string_view, std::size_t> shards;  // by file name, indices into contents.files
  for (const auto& [tensor, shard] : weight_map) {
    require<FormatError>(shard.is_string(), "[", where, "] the file of tensor ", Json(tensor).dump(),
                         " must be a string; got ", shard.type_name(), ".");
    if (!shards.emplace(shard.as_string(), contents.files.size()).second) continue;
    check_shard_name(shard.as_string(), tensor, format, where);
    const fs::path shard_path = path.parent_path() / shard.as_string();
    require<IoError>(fs::exists(shard_path), "[", where, "] names ", shard.dump(),
                     ", which does not exist. The checkpoint was not copied or downloaded completely.");
    contents.files.push_back(format.open(shard_path));
  }
  for (const auto& [tensor, shard] : weight_map) {
    require<FormatError>(contents.files[shards.at(shard.as_string())]->contains(tensor), "[", where, "] lists tensor ",
                         Json(tensor).dump(), " in ", shard.dump(), ", which has no such tensor.");
  }
  std::size_t unlisted = 0;
  for (std::size_t i = 0; i < contents.files.size(); ++i) {
    for (const TensorInfo& info : contents.files[i]->infos()) {
      const Json* shard = weight_map.find(info.name);
      if (!shard || shards.at(shard->as_string()) != i) {
        ++unlisted;
        continue;
      }
      contents.infos.push_back(info);
      contents.places.push_back({contents.files[i].get(), &info});
    }
  }
  if (unlisted > 0) {
    log::warning("[", where, "] ", unlisted, " tensors are in the files but not in the index; they are ignored.");
  }
  return contents;
}

Checkpoint::Checkpoint(std::string where, std::shared_ptr<const TensorSource> file)
    : TensorSource(std::move(where), *file), files_{std::move(file)} {}

Checkpoint::Checkpoint(std::string where, Contents contents)
    : TensorSource(std::move(where), std::move(contents.infos)),
      files_(std::move(contents.files)),
      places_(std::move(contents.places)) {}

Checkpoint::Place Checkpoint::place_of(const TensorInfo& info) const {
  return places_.empty() ? Place{files_[0].get(), &info} : places_[static_cast<std::size_t>(&info - infos().data())];
}

const TensorSource& Checkpoint::file_of(const TensorInfo& info) const { return *place_of(info).file; }

void Checkpoint::copy(const at::Tensor& view, const at::Tensor& out) const {
  const auto has_view = [&](const auto& file) { return file->map() && file->map()->contains(view.const_data_ptr()); };
  const auto file = std::find_if(files_.begin(), files_.end(), has_view);
  file == files_.end() ? TensorSource::copy(view, out) : (*file)->copy(view, out);
}

bool Checkpoint::is_cached() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const auto& file) { return !file->map() || file->map()->is_cached(); });
}

void Checkpoint::prefault_pages() const {
  constexpr int64_t kWorthAThread = int64_t{16} << 20;
  if (nbytes() < kWorthAThread) return;
  std::vector<std::weak_ptr<const MappedFile>> maps;
  for (const auto& file : files_) {
    if (file->map()) maps.push_back(file->map()->weak_from_this());
  }
  easydel::prefault_pages(std::move(maps));
}

at::Tensor Checkpoint::load(const TensorInfo& info) const {
  const Place place = place_of(info);
  return place.file->tensor(*place.info);
}

at::Tensor Checkpoint::load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  return file_of(info).slice(info.name, starts, sizes);
}

}  // namespace easydel
