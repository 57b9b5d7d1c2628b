// Identifies a repository of the hub, and describes a file in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

enum class RepoType { Model, Dataset, Space };

RepoType parse_repo_type(std::string_view name);  // model, dataset, space; ConfigError otherwise
std::string repo_type_name(RepoType type);

struct HubRepo {
  std::string id;  // "org/name", or "name" for the hub's oldest models
  RepoType type = RepoType::Model;
  std::string revision = "main";  // a branch, a tag, "refs/pr/1" or a commit

  std::string folder_name() const;  // in the cache: "models--org--name"
  std::string web_path() const;     // "org/name", "datasets/org/name"
  std::string api_path() const;     // "api/models/org/name"
  std::string text() const;         // for messages: model "org/name" at "main"
};

// Checked, since both become parts of paths and URLs: ConfigError.
HubRepo make_hub_repo(const std::string& id, std::string_view type, const std::string& revision);
bool is_repo_id(std::string_view text);

struct HubFile {
  std::string path;  // with "/" between its parts
  int64_t size = 0;
  std::string blob_id;     // git's SHA-1 of the file, or of the pointer when it is in LFS
  std::string lfs_sha256;  // of the content; "" when the file is not in LFS
  std::string xet_hash;    // kept for huggingface_hub, which reads the same listing; not used here

  const std::string& etag() const { return lfs_sha256.empty() ? blob_id : lfs_sha256; }  // its name among the blobs
};

// True for "a/b.json"; false for paths that are absolute or escape the directory, on any system.
bool is_safe_file_name(std::string_view name);
bool is_hex(std::string_view text, std::size_t length);
inline bool is_commit(std::string_view revision) { return is_hex(revision, 40); }

// Selects the requested files. A name must exist (IoError suggests the nearest); a pattern with * ? [ ] may match none,
// but all together must match something. "*" crosses "/", as in huggingface_hub. Without names: for a model what a
// loader reads (configs, tokenizer, weights as safetensors or else .bin), for other types everything.
std::vector<HubFile> select_files(const std::vector<HubFile>& all, const std::vector<std::string>& wanted,
                                  const HubRepo& repo);
bool is_pattern(std::string_view name);

}  // namespace easydel
