#include "easydel/io/safetensors/safetensors_dtype.h"

#include <array>

#include "easydel/core/error.h"

namespace easydel {
namespace {

// In the order in which the reference writes them.
constexpr std::array<SafetensorsDType, 20> kDTypes = {{
    {"U64", DType::UInt64, 8},
    {"I64", DType::Long, 8},
    {"F64", DType::Double, 8},
    {"C64", DType::ComplexFloat, 8},
    {"F32", DType::Float, 4},
    {"U32", DType::UInt32, 4},
    {"I32", DType::Int, 4},
    {"BF16", DType::BFloat16, 2},
    {"F16", DType::Half, 2},
    {"U16", DType::UInt16, 2},
    {"I16", DType::Short, 2},
    {"F8_E5M2FNUZ", DType::Float8_e5m2fnuz, 1},
    {"F8_E4M3FNUZ", DType::Float8_e4m3fnuz, 1},
    {"F8_E8M0", DType::Float8_e8m0fnu, 1},
    {"F8_E4M3", DType::Float8_e4m3fn, 1},
    {"F8_E5M2", DType::Float8_e5m2, 1},
    {"I8", DType::Char, 1},
    {"U8", DType::Byte, 1},
    {"F4", DType::Float4_e2m1fn_x2, 1},
    {"BOOL", DType::Bool, 1},
}};

}  // namespace

std::span<const SafetensorsDType> safetensors_dtypes() { return kDTypes; }

const SafetensorsDType* find_safetensors_dtype(std::string_view name) {
  for (const SafetensorsDType& entry : kDTypes) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

const SafetensorsDType& safetensors_dtype(DType dtype) {
  for (const SafetensorsDType& entry : kDTypes) {
    if (entry.dtype == dtype) return entry;
  }
  fail<NotSupportedError>("[safetensors] the format has no type for ", c10::toString(dtype),
                          ". Convert the tensor before saving it.");
}

}  // namespace easydel
