// Uploads to the Hugging Face hub: a folder, or what a function saves, as one commit.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "easydel/io/hub/http_retry.h"

namespace easydel {

// Unset values come from the environment, as with HubOptions.
struct PushOptions {
  std::string repo_type = "model";
  std::optional<bool> private_repo;  // when the repository is created; unset: the account's default
  std::optional<std::string> token;
  std::string revision = "main";  // a branch, created if missing
  bool create_pr = false;         // the commit becomes a pull request against `revision`
  std::string commit_message = "Upload with easydel";
  std::string commit_description;
  std::optional<bool> use_temp_dir;  // unset: true unless a directory has the repository's name
  std::filesystem::path directory;   // of push_to_hub without use_temp_dir; empty: the repository's name
  std::vector<std::string> files;    // patterns, as in HubOptions; empty: all
  std::string endpoint;
  bool progress = true;
  int max_workers = 5;  // large files at a time
  std::optional<RetryPolicy> retry;
};

struct CommitInfo {
  std::string repo_id;  // with the account's name, which the hub adds to a bare name
  std::string repo_url;
  std::string commit;  // the branch's current one when nothing has changed
  std::string commit_url;
  std::string pull_request_url;  // with create_pr
};

// Creates the repository if missing, uploads what the hub does not have yet, and commits. Skips .git and .cache.
// ConfigError, IoError, HubError, HttpError, FormatError; NotSupportedError without libcurl.
CommitInfo upload_folder(const std::filesystem::path& folder, const std::string& repo_id,
                         const PushOptions& options = {});

// `save` writes the files into the directory passed to it, which is temporary or, without use_temp_dir, a directory
// with the repository's name in the working directory, which is kept; only what `save` wrote there is uploaded.
CommitInfo push_to_hub(const std::string& repo_id, const std::function<void(const std::filesystem::path&)>& save,
                       const PushOptions& options = {});

}  // namespace easydel
