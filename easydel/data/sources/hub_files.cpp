#include "easydel/data/sources/hub_files.h"

#include "easydel/core/error.h"
#include "easydel/data/sources/data_files.h"
#include "easydel/io/hub/hub.h"
#include "easydel/io/hub/hub_repo.h"

namespace easydel::data {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kOurs = "hub://", kTheirs = "hf://datasets/";

HubOptions hub_options(const DatasetOptions& options, std::vector<std::string> files) {
  return {.repo_type = "dataset", .revision = options.revision, .files = std::move(files)};
}

std::vector<fs::path> matching(const fs::path& directory, const std::vector<std::string>& names) {
  std::vector<fs::path> found;
  for (const std::string& name : names) {
    const auto more = glob((directory / name).string());
    require<IoError>(!more.empty(), "[data_files] ", directory.string(), " has no file that matches ", name, ".");
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

std::vector<std::string> data_patterns(const std::string& before) {
  std::vector<std::string> patterns;
  for (const char* end : {".json", ".jsonl", ".csv", ".tsv", ".txt", ".json.gz", ".jsonl.gz", ".csv.gz", ".txt.gz",
                          ".json.zst", ".jsonl.zst", ".csv.zst", ".txt.zst", ".parquet", ".arrow", ".feather"}) {
    patterns.push_back("*" + before + "*" + end);
  }
  return patterns;
}

}  // namespace

std::optional<std::string> hub_dataset_of(const DatasetOptions& options, bool type_is_a_format) {
  if (options.type == "huggingface" || options.type == "hf") {
    require<ConfigError>(!options.data_files.empty(),
                         "[data_files] must name a data set on the hub, such as user/name, when type is ", options.type,
                         "; got none.");
    return options.data_files[0];
  }
  if (options.type.empty() || type_is_a_format) return std::nullopt;
  require<ConfigError>(options.type.find('/') != std::string::npos && is_repo_id(options.type),
                       "[type] must be json, jsonl, csv, tsv, txt, parquet, arrow, feather, huggingface, or the id of "
                       "a data set on the hub (user/name); got \"",
                       options.type, "\".");
  return options.type;
}

HubFiles fetch_hub_dataset(const std::string& repo, const DatasetOptions& options) {
  std::vector<std::string> names = options.data_files;
  if (options.type == "huggingface" || options.type == "hf") names.erase(names.begin());
  if (!names.empty()) {
    const fs::path directory = resolve(repo, hub_options(options, names));
    return {.directory = directory, .paths = matching(directory, names), .are_named = true};
  }
  // The files of the split by name, so that others are not downloaded; all if the names do not contain it.
  const std::string split = parse_split(options.split).name;
  try {
    return {.directory = resolve(repo, hub_options(options, data_patterns(split)))};
  } catch (const IoError&) {
    return {.directory = resolve(repo, hub_options(options, data_patterns("")))};
  }
}

bool is_hub_file(const std::string& name) { return name.starts_with(kOurs) || name.starts_with(kTheirs); }

std::vector<fs::path> fetch_hub_file(const std::string& name, const DatasetOptions& options) {
  const std::string rest = name.substr(name.starts_with(kOurs) ? kOurs.size() : kTheirs.size());
  const std::size_t first = rest.find('/');
  const std::size_t second = first == std::string::npos ? first : rest.find('/', first + 1);
  require<ConfigError>(second != std::string::npos && second + 1 < rest.size(),
                       "[data_files] a file on the hub must be hub://user/name/path; got ", name, ".");
  const std::string path = rest.substr(second + 1);
  return matching(resolve(rest.substr(0, second), hub_options(options, {path})), {path});
}

}  // namespace easydel::data
