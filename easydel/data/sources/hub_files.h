// Data sets on the hub, downloaded into its cache.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/data/options.h"

namespace easydel::data {

// The id of the data set if the options refer to the hub: type is the id, or type is huggingface and the first of
// data_files is the id.
std::optional<std::string> hub_dataset_of(const DatasetOptions& options, bool type_is_a_format);

struct HubFiles {
  std::filesystem::path directory;
  std::vector<std::filesystem::path> paths;  // when the options name files
  bool are_named = false;
};
HubFiles fetch_hub_dataset(const std::string& repo, const DatasetOptions& options);

// "hub://user/name/path", also with a pattern as the path; "hf://datasets/user/name/path" means the same.
bool is_hub_file(const std::string& name);
std::vector<std::filesystem::path> fetch_hub_file(const std::string& name, const DatasetOptions& options);

}  // namespace easydel::data
