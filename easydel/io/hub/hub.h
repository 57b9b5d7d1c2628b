// Files of the Hugging Face hub as a local directory.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/io/hub/http_retry.h"

namespace easydel {

// What is not set here comes from the environment; docs/hub.md lists the variables.
struct HubOptions {
  std::string repo_type = "model";   // model, dataset or space
  std::string revision = "main";     // a branch, a tag, "refs/pr/1" or a commit
  std::optional<std::string> token;  // "" sends none
  std::vector<std::string> files;    // names, which must be there, or patterns; empty: what a loader reads
  std::string endpoint;
  std::filesystem::path cache_dir;
  bool local_files_only = false;  // as HF_HUB_OFFLINE does for all
  bool progress = true;
  int max_workers = 8;                                         // files at a time
  std::chrono::seconds lock_timeout = std::chrono::hours(24);  // for another process that downloads the same file
  std::optional<RetryPolicy> retry;
};

// The directory with the files: `name_or_path` itself when it is one, else the snapshot of that repository in the
// cache, after what is missing has been downloaded. When the hub cannot be reached or refuses, a complete snapshot from
// an earlier time is returned with a warning. ConfigError on a name that is none; HubError and HttpError; FormatError
// on content that is not what the hub listed; NotSupportedError when something must be downloaded and the build has no
// libcurl.
std::filesystem::path resolve(const std::string& name_or_path, const HubOptions& options = {});

}  // namespace easydel
