#include "easydel/data/sources/data_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/data/sources/byte_stream.h"
#include "easydel/data/sources/hub_files.h"

namespace easydel::data {

namespace fs = std::filesystem;

namespace {

struct TypeName {
  std::string_view name;
  FileType type;
};
constexpr std::array<TypeName, 11> kTypes = {{{"json", FileType::Json},
                                              {"jsonl", FileType::JsonLines},
                                              {"ndjson", FileType::JsonLines},
                                              {"csv", FileType::Csv},
                                              {"tsv", FileType::Tsv},
                                              {"txt", FileType::Text},
                                              {"text", FileType::Text},
                                              {"parquet", FileType::Parquet},
                                              {"arrow", FileType::Arrow},
                                              {"feather", FileType::Arrow},
                                              {"ipc", FileType::Arrow}}};

std::optional<FileType> type_by_name(std::string_view name) {
  for (const TypeName& known : kTypes) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

bool has_pattern(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

// The words of a path: "data/train-00000-of-2.parquet" has data, train, 00000, of, 2 and parquet.
bool has_word(const std::string& path, const std::vector<std::string>& words) {
  std::string word;
  for (std::size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size() && std::isalnum(static_cast<unsigned char>(path[i]))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(path[i])));
      continue;
    }
    if (std::find(words.begin(), words.end(), word) != words.end()) return true;
    word.clear();
  }
  return false;
}

const std::vector<std::vector<std::string>>& split_words() {
  static const std::vector<std::vector<std::string>> words = {
      {"train", "training"}, {"validation", "valid", "val", "dev"}, {"test", "testing", "eval", "evaluation"}};
  return words;
}

std::vector<std::string> words_of_split(const std::string& name) {
  for (const auto& words : split_words()) {
    if (std::find(words.begin(), words.end(), name) != words.end()) return words;
  }
  return {name};
}

bool has_any_split(const std::string& path) {
  return std::any_of(split_words().begin(), split_words().end(),
                     [&](const auto& words) { return has_word(path, words); });
}

// The files of a split. If no name contains a split, all files are "train".
std::vector<fs::path> of_split(const std::vector<fs::path>& files, const fs::path& root, const std::string& split) {
  std::vector<fs::path> chosen;
  bool any = false;
  for (const fs::path& file : files) {
    const std::string name = file.lexically_relative(root).string();
    any = any || has_any_split(name);
    if (has_word(name, words_of_split(split))) chosen.push_back(file);
  }
  return chosen.empty() && !any && split == "train" ? files : chosen;
}

void walk(const fs::path& directory, std::vector<fs::path>& files, int depth = 0) {
  constexpr int kMaxDepth = 32;
  for (const std::string& name : list_directory(directory)) {
    if (name.starts_with('.')) continue;
    const fs::path path = directory / name;
    if (fs::is_directory(path)) {
      if (depth < kMaxDepth) walk(path, files, depth + 1);
    } else if (file_type_of(path)) {
      files.push_back(path);
    }
  }
}

std::vector<fs::path> files_of_directory(const fs::path& directory, const DatasetOptions& options) {
  std::vector<fs::path> files;
  walk(directory, files);
  require<IoError>(!files.empty(), "[data_files] ", directory.string(),
                   " has no data file: no .json, .jsonl, .csv, .tsv, .txt, .parquet, .arrow or .feather.");
  if (!options.dataset_split_name.empty()) {
    std::vector<fs::path> chosen;
    const auto words = words_of_split(options.dataset_split_name);
    for (const fs::path& file : files) {
      const fs::path relative = file.lexically_relative(directory);
      const bool below = std::find(relative.begin(), relative.end(), options.dataset_split_name) != relative.end();
      if (below || has_word(relative.string(), words)) chosen.push_back(file);
    }
    if (chosen.empty() && options.dataset_split_name == "train") chosen = of_split(files, directory, "train");
    require<IoError>(!chosen.empty(), "[dataset_split_name] ", directory.string(), " has ", files.size(),
                     " data files, and none for \"", options.dataset_split_name, "\"; the first is ",
                     files[0].lexically_relative(directory).string(), ".");
    const bool is_split = words.size() > 1 || options.split == "train";
    if (is_split && of_split(chosen, directory, parse_split(options.split).name).empty()) return chosen;
    files = chosen;
  }
  const std::string split = parse_split(options.split).name;
  const auto chosen = of_split(files, directory, split);
  require<IoError>(!chosen.empty(), "[split] ", directory.string(), " has ", files.size(),
                   " data files, and none for the split \"", split, "\"; the first is ",
                   files[0].lexically_relative(directory).string(), ".");
  return chosen;
}

void match_below(const fs::path& directory, const std::vector<std::string>& parts, std::size_t at,
                 std::vector<fs::path>& found, int depth) {
  if (depth > 64) return;
  if (at == parts.size()) {
    if (!fs::is_directory(directory)) found.push_back(directory);
    return;
  }
  if (!fs::is_directory(directory.empty() ? fs::path(".") : directory)) return;
  const std::string& part = parts[at];
  if (!has_pattern(part)) {
    if (fs::exists(directory / part)) match_below(directory / part, parts, at + 1, found, depth + 1);
    return;
  }
  if (part == "**") match_below(directory, parts, at + 1, found, depth + 1);
  for (const std::string& name : list_directory(directory.empty() ? fs::path(".") : directory)) {
    if (name.starts_with('.') && !part.starts_with('.')) continue;
    if (part == "**") {
      if (fs::is_directory(directory / name)) match_below(directory / name, parts, at, found, depth + 1);
    } else if (::fnmatch(part.c_str(), name.c_str(), 0) == 0) {
      match_below(directory / name, parts, at + 1, found, depth + 1);
    }
  }
}

}  // namespace

std::optional<FileType> file_type_of(const fs::path& path) {
  const fs::path plain = compression_of(path) == Compression::None ? path : path.stem();
  const std::string end = plain.extension().string();
  const auto type = end.empty() ? std::nullopt : type_by_name(end.substr(1));
  const bool is_binary = type == FileType::Parquet || type == FileType::Arrow;
  return is_binary && compression_of(path) != Compression::None ? std::nullopt : type;
}

std::vector<fs::path> glob(const std::string& pattern) {
  const fs::path path(pattern);
  std::vector<std::string> parts;
  for (const fs::path& part : path.relative_path()) {
    if (!part.empty()) parts.push_back(part.string());
  }
  std::vector<fs::path> found;
  match_below(path.root_path(), parts, 0, found, 0);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<DataFile> find_data_files(const DatasetOptions& options) {
  const auto type = type_by_name(options.type);
  std::vector<fs::path> paths;
  const auto add = [&](const std::vector<fs::path>& more) { paths.insert(paths.end(), more.begin(), more.end()); };
  if (const auto repo = hub_dataset_of(options, type.has_value())) {
    const HubFiles files = fetch_hub_dataset(*repo, options);
    add(files.are_named ? files.paths : files_of_directory(files.directory, options));
  } else {
    require<ConfigError>(!options.data_files.empty(), "[data_files] must list at least one file; got none.");
    for (const std::string& file : options.data_files) {
      if (is_hub_file(file)) {
        add(fetch_hub_file(file, options));
      } else if (fs::is_directory(file)) {
        add(files_of_directory(file, options));
      } else if (fs::exists(file)) {
        paths.emplace_back(file);
      } else {
        require<IoError>(has_pattern(file), "[data_files] file ", file, " does not exist.");
        const auto found = glob(file);
        require<IoError>(!found.empty(), "[data_files] no file matches ", file, ".");
        add(found);
      }
    }
  }
  std::vector<DataFile> files;
  for (const fs::path& path : paths) {
    // The extension takes precedence: "json" includes JSONL.
    const auto by_name = file_type_of(path);
    const bool name_wins = !type || (type == FileType::Json && by_name == FileType::JsonLines);
    const auto chosen = name_wins ? by_name : type;
    require<ConfigError>(chosen.has_value(), "[data_files] ", path.string(),
                         " has no known extension. Set type to json, jsonl, csv, tsv, txt, parquet or arrow.");
    files.push_back({path, *chosen});
  }
  return files;
}

}  // namespace easydel::data
