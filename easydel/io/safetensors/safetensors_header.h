// The header of a safetensors file, checked in full before a byte of data is touched.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "easydel/io/tensor_info.h"

namespace easydel {

// Text stored with the tensors; Hugging Face's loaders require {"format", "pt"}.
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of the data; offsets are from the start of the file
  SafetensorsMetadata metadata;
};

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the reference's limit

// `file` is the entire file, of which only the header is read. Rejects what the reference implementation rejects, and
// duplicate or unknown names and fields. Throws FormatError, or NotSupportedError for element types that torch lacks;
// `where` is named in both.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where);

}  // namespace easydel
