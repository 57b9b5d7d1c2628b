// Uploads to the Hugging Face hub: a folder, or what a function saves, as one commit.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "easydel/io/hub/http_retry.h"

namespace easydel {

// What is not set here comes from the environment, as with HubOptions.
struct PushOptions {
  std::string repo_type = "model";
  std::optional<bool> private_repo;  // for a repository that is made now; unset: the account's default
  std::optional<std::string> token;
  std::string revision = "main";  // a branch, made when it is not there
  bool create_pr = false;         // the commit becomes a pull request against `revision`
  std::string commit_message = "Upload with easydel";
  std::string commit_description;
  std::optional<bool> use_temp_dir;  // unset: unless there is a directory named as the repository
  std::filesystem::path directory;   // of push_to_hub without use_temp_dir; empty: the one named as the repository
  std::vector<std::string> files;    // patterns, as in HubOptions; empty: all
  std::string endpoint;
  bool progress = true;
  int max_workers = 5;  // large files at a time
  std::optional<RetryPolicy> retry;
};

struct CommitInfo {
  std::string repo_id;  // with the account's name, which the hub adds to a bare name
  std::string repo_url;
  std::string commit;  // of the branch as it is when nothing had changed
  std::string commit_url;
  std::string pull_request_url;  // with create_pr
};

// Makes the repository when it is not there, uploads what the hub does not have yet, and commits. Files of .git and
// .cache are left out. ConfigError, IoError, HubError, HttpError, FormatError; NotSupportedError without libcurl.
CommitInfo upload_folder(const std::filesystem::path& folder, const std::string& repo_id,
                         const PushOptions& options = {});

// `save` writes the files into the directory it is given, which is temporary or, without use_temp_dir, the one in the
// working directory that is named as the repository and is kept; there, only what `save` has written is uploaded.
CommitInfo push_to_hub(const std::string& repo_id, const std::function<void(const std::filesystem::path&)>& save,
                       const PushOptions& options = {});

}  // namespace easydel
