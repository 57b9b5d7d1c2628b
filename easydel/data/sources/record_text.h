// Access to the records of one file, with a strategy that suits the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "easydel/data/sources/records.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

// Thread-safe.
class RecordText {
 public:
  virtual ~RecordText() = default;
  virtual std::string record(int64_t number) const = 0;
  virtual Access access() const { return Access::Random; }
  virtual void keep_rows(int64_t /*count*/) const {}
};

struct ScannedText {
  std::shared_ptr<const RecordIndex> index;
  std::unique_ptr<const RecordText> text;
};

struct TextOptions {
  bool streaming = true;            // read large compressed files in order, instead of from a temporary file
  std::filesystem::path cache_dir;  // the directory of that temporary file; empty: the system's
  // Compressed text up to this size is kept in memory.
  std::size_t memory_limit = std::size_t{64} << 20;
};

// Reads the file once and finds its records.
ScannedText scan_text(const std::filesystem::path& path, RecordKind kind, const TextOptions& options);

// For a gzip or zstd file: records already read, up to this many before the last one.
std::unique_ptr<const RecordText> make_text_in_order(std::filesystem::path path,
                                                     std::shared_ptr<const RecordIndex> index);

}  // namespace easydel::data
