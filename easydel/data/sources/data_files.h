// Finds the files of a data set: names, globs, directories, the hub.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/data/options.h"
#include "easydel/data/sources/file_sources.h"

namespace easydel::data {

struct DataFile {
  std::filesystem::path path;
  FileType type = FileType::JsonLines;
};

// The type by extension, with or without .gz or .zst: .json, .jsonl, .csv, .tsv, .txt, .parquet, .arrow, .feather.
std::optional<FileType> file_type_of(const std::filesystem::path& path);

// Sorted by name within each pattern and each directory. ConfigError when a type or split is unknown; IoError when a
// file is missing or a pattern matches none.
std::vector<DataFile> find_data_files(const DatasetOptions& options);

// The paths that match, sorted: * and ? do not cross "/", ** matches directories.
std::vector<std::filesystem::path> glob(const std::string& pattern);

struct Split {
  std::string name;
  std::string slice;  // "", or the text in brackets: ":1000", "10%:20%"
};
Split parse_split(const std::string& text);  // ConfigError on an invalid slice

// The range of rows of a slice, given their number.
std::pair<int64_t, int64_t> slice_bounds(const std::string& slice, int64_t rows);

}  // namespace easydel::data
