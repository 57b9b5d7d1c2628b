#include "easydel/io/hub/hub_cache.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/log.h"

namespace easydel {

namespace fs = std::filesystem;

namespace {

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  require<IoError>(!error, "[hub] cannot create ", path.string(), ": ", error.message(),
                   ". Set HF_HUB_CACHE to a writable directory.");
}

// The same checks as on the hub's response: names and hashes become paths.
HubFile tree_entry(const std::string& path, const Json& info) {
  HubFile file{.path = path, .size = info.at("size").as_int(), .blob_id = info.at("blob_id").as_string()};
  if (const Json* sha = info.find("lfs_sha256")) {
    file.lfs_sha256 = sha->as_string();
    file.size = info.at("lfs_size").as_int();
  }
  if (const Json* xet = info.find("xet_hash")) file.xet_hash = xet->as_string();
  const bool hashes = is_hex(file.blob_id, 40) && (file.lfs_sha256.empty() || is_hex(file.lfs_sha256, 64));
  require<FormatError>(is_safe_file_name(path) && hashes && file.size >= 0, "bad entry \"", path, "\"");
  return file;
}

}  // namespace

HubCache::HubCache(fs::path root, const HubRepo& repo)
    : root_(std::move(root)), folder_(root_ / repo.folder_name()), lock_folder_(repo.folder_name()) {}

fs::path HubCache::incomplete_blob(const std::string& etag) const { return folder_ / "blobs" / (etag + ".incomplete"); }

fs::path HubCache::lock(const std::string& etag) const { return root_ / ".locks" / lock_folder_ / (etag + ".lock"); }

std::optional<std::string> HubCache::find_commit(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const fs::path path = folder_ / "refs" / revision;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  std::string commit = read_file(path);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
  if (!is_commit(commit)) return std::nullopt;
  return commit;
}

void HubCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (find_commit(revision) == commit) return;
  const fs::path path = folder_ / "refs" / revision;
  make_directories(path.parent_path());
  write_file_atomically(path, commit);
}

std::optional<std::vector<HubFile>> HubCache::read_tree(const std::string& commit) const {
  const fs::path path = folder_ / "trees" / (commit + ".json");
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const Json tree = Json::parse_file(path.string());
    if (tree.at("format_version").as_int() != 1) return std::nullopt;
    std::vector<HubFile> files;
    for (const auto& [name, info] : tree.at("files").as_object()) files.push_back(tree_entry(name, info));
    return files;
  } catch (const Error& error) {
    log::warning("[hub] ", path.string(), " is ignored: ", error.what());
    return std::nullopt;
  }
}

void HubCache::write_tree(const std::string& commit, const std::vector<HubFile>& files) const {
  Json::Object entries;
  for (const HubFile& file : files) {
    Json entry = Json::object({{"size", file.size}, {"blob_id", file.blob_id}});
    if (!file.lfs_sha256.empty()) {
      entry["lfs_sha256"] = file.lfs_sha256;
      entry["lfs_size"] = file.size;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
    entries[file.path] = std::move(entry);
  }
  make_directories(folder_ / "trees");
  write_file_atomically(folder_ / "trees" / (commit + ".json"),
                        Json::object({{"format_version", 1}, {"files", std::move(entries)}}).dump(1));
}

bool HubCache::has(const std::string& commit, const HubFile& file) const {
  std::error_code error;
  const auto size = fs::file_size(snapshot(commit) / file.path, error);
  return !error && static_cast<int64_t>(size) == file.size;
}

std::vector<HubFile> HubCache::files_in_snapshot(const std::string& commit) const {
  std::vector<HubFile> files;
  std::error_code error;
  const fs::path base = snapshot(commit);
  for (fs::recursive_directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    std::error_code broken;
    if (!fs::is_regular_file(it->path(), broken)) continue;
    files.push_back({.path = it->path().lexically_relative(base).generic_string(),
                     .size = static_cast<int64_t>(fs::file_size(it->path(), broken))});
  }
  return files;
}

void HubCache::link(const std::string& commit, const HubFile& file, bool allow_links) const {
  static std::atomic<int> counter{0};
  const fs::path entry = snapshot(commit) / file.path;
  make_directories(entry.parent_path());
  const fs::path target = blob(file.etag()).lexically_relative(entry.parent_path());
  // Created under a temporary name outside the snapshot and renamed: an entry appears atomically, and replaces an old
  // one that may be a dangling link.
  const fs::path temporary = folder_ / "blobs" / concat(".", file.etag(), ".", ::getpid(), "-", counter++, ".link");
  std::error_code error = std::make_error_code(std::errc::operation_not_supported);
  if (allow_links) fs::create_symlink(target, temporary, error);
  if (error) fs::copy_file(blob(file.etag()), temporary, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(temporary, entry, error);
  if (error) ::unlink(temporary.c_str());
  require<IoError>(!error, "[hub] cannot create ", entry.string(), ": ", error.message(), ".");
}

void HubCache::mark_absent(const std::string& commit, const std::string& name) const {
  const fs::path path = folder_ / ".no_exist" / commit / name;
  make_directories(path.parent_path());
  std::error_code ignored;
  if (!fs::exists(path, ignored)) write_file_atomically(path, "");
}

bool HubCache::is_marked_absent(const std::string& commit, const std::string& name) const {
  std::error_code ignored;
  return fs::is_regular_file(folder_ / ".no_exist" / commit / name, ignored);
}

void HubCache::prepare(const std::string& commit) const {
  make_directories(folder_ / "blobs");
  make_directories(snapshot(commit));
  make_directories(root_ / ".locks" / lock_folder_);
  std::error_code ignored;
  if (const fs::path tag = root_ / "CACHEDIR.TAG"; !fs::exists(tag, ignored)) {
    write_file_atomically(tag, "Signature: 8a477f597d28d172789f06886806bc55\n# The cache of the Hugging Face hub.\n");
  }
}

}  // namespace easydel
