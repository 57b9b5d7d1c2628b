// Element types by name, short and long: "bf16" and "bfloat16", "fp8_e4m3" and "float8_e4m3fn".
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace easydel {

using DType = c10::ScalarType;

inline constexpr DType float64 = DType::Double;
inline constexpr DType float32 = DType::Float;
inline constexpr DType float16 = DType::Half;
inline constexpr DType bfloat16 = DType::BFloat16;
inline constexpr DType float8_e4m3fn = DType::Float8_e4m3fn;
inline constexpr DType float8_e5m2 = DType::Float8_e5m2;
inline constexpr DType int64 = DType::Long;
inline constexpr DType int32 = DType::Int;
inline constexpr DType int16 = DType::Short;
inline constexpr DType int8 = DType::Char;
inline constexpr DType uint8 = DType::Byte;
inline constexpr DType uint16 = DType::UInt16;
inline constexpr DType uint32 = DType::UInt32;
inline constexpr DType uint64 = DType::UInt64;
inline constexpr DType boolean = DType::Bool;

// What sums and products of such elements are computed in.
constexpr DType acc_type(DType dtype) { return dtype == float64 ? float64 : float32; }

// Case does not matter and a leading "torch." or "jnp." is dropped. ConfigError lists the known names.
DType parse_dtype(std::string_view name);
std::string dtype_name(DType dtype);  // as torch and config.json write it: "bfloat16"
int64_t dtype_bytes(DType dtype);     // of one element; needs no libtorch, unlike c10::elementSize

}  // namespace easydel
