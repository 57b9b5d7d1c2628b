// easydel download: downloads files from the Hugging Face Hub into the cache and prints their directory.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/core/error.h"
#include "easydel/io/hub/hub.h"

namespace easydel::cli {
namespace {

struct DownloadOptions {
  std::string repo;
  std::string token;
  bool quiet = false;
  HubOptions hub;
};

// A directory of that name stands for itself, and leaves nothing to be chosen on the hub.
void check(const DownloadOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::exists(options.repo, ignored)) return;
  const HubOptions usual;
  std::string given;
  if (options.hub.revision != usual.revision) given = concat("--revision ", options.hub.revision);
  if (options.hub.repo_type != usual.repo_type) given = concat("--repo-type ", options.hub.repo_type);
  if (!options.hub.files.empty()) given = concat("--include ", options.hub.files.front());
  if (!options.token.empty()) given = "--token";
  require<UsageError>(
      given.empty(), given, " applies only to repositories on the Hub; ", options.repo,
      " is a local path. Run the command in another directory to download the repository of that name.");
}

}  // namespace

void add_download_command(CLI::App& app) {
  auto options = std::make_shared<DownloadOptions>();
  CLI::App* command =
      app.add_subcommand("download", "Download a repository from the Hub into the cache and print its path");
  command->add_option("REPO", options->repo, "The repository: org/name")->required();
  command->add_option("--revision", options->hub.revision, "Branch, tag or commit")->capture_default_str();
  command->add_option("--repo-type", options->hub.repo_type, "Type of the repository: model, dataset or space")
      ->check(CLI::IsMember({"model", "dataset", "space"}))
      ->capture_default_str();
  command
      ->add_option("--include", options->hub.files,
                   "A file or a pattern such as *.json; can be repeated (default: the files needed to load a model)")
      ->allow_extra_args(false);
  command->add_option("--token", options->token,
                      "Access token; prefer HF_TOKEN, which other users of the machine cannot see");
  command->add_flag("--quiet", options->quiet, "No progress bars");
  command->callback([options] {
    check(*options);
    if (!options->token.empty()) options->hub.token = options->token;
    options->hub.progress = !options->quiet;
    std::cout << resolve(options->repo, options->hub).string() << "\n";
  });
}

}  // namespace easydel::cli
