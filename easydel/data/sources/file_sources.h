// One file of each format as a source of rows.
#pragma once

#include <filesystem>
#include <string>

#include "easydel/data/sources/record_text.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

enum class FileType { Json, JsonLines, Csv, Tsv, Text, Parquet, Arrow };

struct FileOptions {
  TextOptions text;
  bool whole_text = false;  // a text file is one row
};

// The rows of a file. IoError and FormatError name the file; NotSupportedError names the package that is missing.
SourcePtr open_file(const std::filesystem::path& path, FileType type, const FileOptions& options = {});

// JSONL, CSV and text: rows by their offset in the file.
SourcePtr open_records(const std::filesystem::path& path, RecordKind kind, const TextOptions& options);
// An array of objects, or {"data": [...]}; read at once.
SourcePtr open_json(const std::filesystem::path& path);
SourcePtr open_whole_text(const std::filesystem::path& path);
// Read by row groups, of which the last few are cached.
SourcePtr open_parquet(const std::filesystem::path& path);
// Arrow's file format, which Feather is too, and its stream format, which the datasets package writes.
SourcePtr open_arrow(const std::filesystem::path& path);

}  // namespace easydel::data
