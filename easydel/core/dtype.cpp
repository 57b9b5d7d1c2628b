#include "easydel/core/dtype.h"

#include <algorithm>
#include <array>
#include <vector>

#include "easydel/core/error.h"

namespace easydel {
namespace {

struct Names {
  DType dtype;
  std::string_view name;        // torch's
  std::string_view short_name;  // the command line's
  std::string_view other = {};  // JAX's or numpy's, where it differs
};

constexpr std::array<Names, 15> kNames{{{float64, "float64", "fp64", "double"},
                                        {float32, "float32", "fp32", "float"},
                                        {float16, "float16", "fp16", "half"},
                                        {bfloat16, "bfloat16", "bf16"},
                                        {float8_e4m3fn, "float8_e4m3fn", "fp8_e4m3", "fp8_e4m3fn"},
                                        {float8_e5m2, "float8_e5m2", "fp8_e5m2"},
                                        {int64, "int64", "i64", "long"},
                                        {int32, "int32", "i32", "int"},
                                        {int16, "int16", "i16", "short"},
                                        {int8, "int8", "i8"},
                                        {uint8, "uint8", "u8"},
                                        {uint16, "uint16", "u16"},
                                        {uint32, "uint32", "u32"},
                                        {uint64, "uint64", "u64"},
                                        {boolean, "bool", "bool", "boolean"}}};

const Names* find(DType dtype) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const Names& n) { return n.dtype == dtype; });
  return found == kNames.end() ? nullptr : found;
}

}  // namespace

DType parse_dtype(std::string_view text) {
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (std::string_view prefix : {"torch.", "jnp.", "jax.numpy.", "np.", "numpy."}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  for (const Names& n : kNames) {
    if (name == n.name || name == n.short_name || (!n.other.empty() && name == n.other)) return n.dtype;
  }
  std::string known;
  std::vector<std::string_view> all;
  for (const Names& n : kNames) {
    known += concat(known.empty() ? "" : ", ", n.name, n.name == n.short_name ? "" : concat(" (", n.short_name, ")"));
    all.insert(all.end(), {n.name, n.short_name});
  }
  const std::string near = nearest_name(name, all);
  fail<ConfigError>("[parse_dtype] unknown dtype \"", text, "\"; known: ", known, ".",
                    near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

std::string dtype_name(DType dtype) {
  const Names* names = find(dtype);
  return names ? std::string(names->name) : std::string(c10::toString(dtype));
}

int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
#define EASYDEL_CASE(type, name) \
  case DType::name: return sizeof(type);
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(EASYDEL_CASE)
#undef EASYDEL_CASE
    default: fail<ConfigError>("[dtype_bytes] ", dtype_name(dtype), " has no element size.");
  }
}

}  // namespace easydel
