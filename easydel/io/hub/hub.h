// Downloads files of the Hugging Face hub into a local directory.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/io/hub/http_retry.h"

namespace easydel {

// Unset values come from the environment; docs/hub.md lists the variables.
struct HubOptions {
  std::string repo_type = "model";   // model, dataset or space
  std::string revision = "main";     // a branch, a tag, "refs/pr/1" or a commit
  std::optional<std::string> token;  // "" sends none
  std::vector<std::string> files;    // names, which must exist, or patterns; empty: what a loader reads
  std::string endpoint;
  std::filesystem::path cache_dir;
  bool local_files_only = false;  // as HF_HUB_OFFLINE does for all
  bool progress = true;
  int max_workers = 8;                                         // files at a time
  std::chrono::seconds lock_timeout = std::chrono::hours(24);  // while another process downloads the same file
  std::optional<RetryPolicy> retry;
};

// The directory with the files: `name_or_path` itself if it is one, else the snapshot of that repository in the cache,
// after downloading what is missing. When the hub cannot be reached or refuses, a complete cached snapshot is returned
// with a warning. ConfigError on an invalid name; HubError and HttpError; FormatError on content that does not match
// the hub's listing; NotSupportedError when a download is needed and the build has no libcurl.
std::filesystem::path resolve(const std::string& name_or_path, const HubOptions& options = {});

}  // namespace easydel
