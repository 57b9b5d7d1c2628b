// The container of a GGUF file: its metadata and tensor table. Does not need libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/gguf/ggml_type.h"
#include "easydel/io/tensor_info.h"

namespace easydel {

enum class GgufValueType : uint32_t {
  UInt8,
  Int8,
  UInt16,
  Int16,
  UInt32,
  Int32,
  Float32,
  Bool,
  String,
  Array,
  UInt64,
  Int64,
  Float64
};
std::string_view gguf_value_type_name(GgufValueType type);  // "uint32", for messages

struct GgufArray {
  GgufValueType type = GgufValueType::UInt8;  // of each element
  std::size_t size = 0;
  std::span<const std::byte> numbers;     // as stored in the file; Bool too, each 0 or 1
  std::vector<std::string_view> strings;  // UTF-8
  std::vector<GgufArray> arrays;
};

// A metadata value. Strings and array elements point into the file's bytes.
struct GgufValue {
  GgufValueType type = GgufValueType::UInt8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> value;

  // Each throws FormatError when the value has a different type.
  int64_t as_int() const;    // any integer up to 2^63 - 1
  double as_double() const;  // any number
  bool as_bool() const;
  std::string_view as_string() const;
  const GgufArray& as_array() const;
  Json to_json() const;  // a uint64 past 2^63 - 1 becomes a float
};

struct GgufTensor {
  TensorInfo info;  // the shape is in torch's order: GGUF lists the fastest dimension first
  const GgmlType* type = nullptr;
};

class GgufContainer {
 public:
  // Reads versions 2 and 3 in little-endian order. The bytes must outlive the container; `where` is named in errors.
  // Throws FormatError, with a specific message for each fault; NotSupportedError for version 1 and big-endian files.
  GgufContainer(std::span<const std::byte> bytes, const std::string& where);

  uint32_t version() const { return version_; }
  const std::vector<std::pair<std::string_view, GgufValue>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  // null when absent
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

 private:
  uint32_t version_ = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;  // in the order of the file
  std::vector<std::size_t> by_key_;                               // indices into metadata_, sorted
  std::vector<GgufTensor> tensors_;
};

}  // namespace easydel
