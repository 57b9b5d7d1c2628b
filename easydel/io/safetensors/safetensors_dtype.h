// The element types of the safetensors format that torch has.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "easydel/core/dtype.h"

namespace easydel {

struct SafetensorsDType {
  std::string_view name;  // as the file writes it
  DType dtype;
  int64_t bytes;  // of one torch element
  // F4 counts four-bit values in the last dimension; torch counts bytes of two each.
  bool is_packed() const { return dtype == DType::Float4_e2m1fn_x2; }
};

// In the order in which a file stores them: descending alignment, then the reference's own order.
std::span<const SafetensorsDType> safetensors_dtypes();
const SafetensorsDType* find_safetensors_dtype(std::string_view name);  // null when torch has no such type
const SafetensorsDType& safetensors_dtype(DType dtype);  // NotSupportedError for a type that the format lacks

}  // namespace easydel
