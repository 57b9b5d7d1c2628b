#include "easydel/operations/kernels/cpu/float_product.h"

#include <cstring>

#include "easydel/core/cpu.h"
#include "easydel/operations/kernels/cpu/dispatch.h"

#if defined(EASYDEL_X86_KERNELS)
#include <cpuid.h>
#endif

namespace easydel::operations::kernels {

#if defined(EASYDEL_X86_KERNELS)
void float_product_amx(const FloatProduct& product);
void float_product_avx512(const FloatProduct& product);

namespace {

bool is_amd() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return false;
  char vendor[12];
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  return std::memcmp(vendor, "AuthenticAMD", sizeof vendor) == 0;
}

}  // namespace

FloatProductKernel float_product_available() {
  static const bool has = use_cpu_kind(CpuKind::kAvx512);
  return has ? float_product_avx512 : nullptr;
}

FloatProductKernel float_product_preferred() {
  if (static const bool has_tiles = use_cpu_kind(CpuKind::kAmx); has_tiles) return float_product_amx;
  static const bool prefers = is_amd();
  return prefers ? float_product_available() : nullptr;
}

SomeVectorsKernel some_vectors_preferred() {
  static const bool prefers = is_amd();
  return prefers ? active().some_vectors : nullptr;
}

bool multiplies_bfloat16() {
  static const bool has = use_cpu_kind(CpuKind::kAvx512) && __builtin_cpu_supports("avx512bf16");
  return has;
}

bool multiplies_float16() {
  static const bool has = use_cpu_kind(CpuKind::kAvx512) && __builtin_cpu_supports("avx512fp16");
  return has;
}
#else
FloatProductKernel float_product_available() { return nullptr; }
FloatProductKernel float_product_preferred() { return nullptr; }
SomeVectorsKernel some_vectors_preferred() { return nullptr; }
bool multiplies_bfloat16() { return true; }
bool multiplies_float16() { return true; }
#endif

}  // namespace easydel::operations::kernels
