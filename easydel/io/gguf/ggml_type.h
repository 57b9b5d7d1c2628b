// The element types of GGUF files. Most are block types, whose elements share a scale.
#pragma once

#include <cstdint>
#include <string_view>

#include "easydel/core/dtype.h"

namespace easydel {

struct GgmlType {
  uint32_t id;
  std::string_view name;   // "Q4_K"
  int64_t block_elements;  // 1 for plain numbers
  int64_t block_bytes;
  DType dtype = float32;    // of the tensors returned
  bool is_readable = true;  // false for those that are only listed
  bool is_plain() const { return block_elements == 1; }
};

const GgmlType* find_ggml_type(uint32_t id);            // null when unknown
const GgmlType* find_ggml_type(std::string_view name);  // null when unknown

}  // namespace easydel
