// Rows by index: a file, several files, a part of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::data {

// What it costs to read rows in any order.
enum class Access {
  Random,   // nothing
  Grouped,  // neighbors are read together, as the row groups of a Parquet file
  InOrder,  // going back means reading from the beginning
};

// Thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t size() const = 0;
  virtual Json row(int64_t index) const = 0;           // an object
  virtual std::string place(int64_t index) const = 0;  // for messages: "data.jsonl, line 7"
  // The folder of the file that has it: relative paths in a row are below it. Empty: that of the process.
  virtual std::filesystem::path folder(int64_t /*index*/) const { return {}; }
  virtual Access access() const { return Access::Random; }
  // The number of rows before the last one to keep, so that they need not be read again; only for InOrder.
  virtual void keep_rows(int64_t /*count*/) const {}
};

using SourcePtr = std::shared_ptr<const Source>;

// One after the other.
SourcePtr concatenate(std::vector<SourcePtr> sources);

// Rows in memory.
SourcePtr make_source(std::vector<Json> rows, std::string name);

// The rows with these indices, or those from `begin` to `end`.
SourcePtr select_rows(SourcePtr source, std::vector<int64_t> rows);
SourcePtr slice_rows(SourcePtr source, int64_t begin, int64_t end);

// A row together with its location.
struct Row {
  Json values;
  const Source* source = nullptr;
  int64_t index = 0;
  std::string place() const { return source ? source->place(index) : "row"; }
};

// The value of a field. FormatError with the location and the existing fields, when it is absent.
const Json& field_of(const Row& row, std::string_view name);
std::string list_fields(const Json& row);

}  // namespace easydel::data
