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
void float_product_avx2(const FloatProduct& product);
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

std::vector<FloatProductKernel> float_products() {
  std::vector<FloatProductKernel> products;
  if (use_cpu_kind(CpuKind::kAvx2)) products.push_back(float_product_avx2);
  if (use_cpu_kind(CpuKind::kAvx512)) products.push_back(float_product_avx512);
  if (use_cpu_kind(CpuKind::kAmx)) products.push_back(float_product_amx);
  return products;
}

FloatProductKernel float_product_available() {
  static const FloatProductKernel widest = float_products().empty() ? nullptr : float_products().back();
  return widest;
}

FloatProductKernel float_product_preferred() {
  static const bool prefers = is_amd() || use_cpu_kind(CpuKind::kAmx);
  return prefers ? float_product_available() : nullptr;
}

SomeVectorsKernel some_vectors_preferred() {
  static const bool prefers = is_amd();
  return prefers ? active().some_vectors : nullptr;
}

bool are_some_vectors(int64_t vectors, int64_t width, int64_t rows) {
  // Vectors are read again and again, from L2. With AVX-512, the product needs fewer rows to be fast.
  constexpr int64_t kLeast = 5, kMostBytes = 640 << 10;
  constexpr int64_t kAlways = 24, kMost = 48, kMostBytes512 = 176 << 10, kMostRowBytes = 8 << 20;
  const int64_t bytes = vectors * width * 4;
  if (vectors < kLeast) return false;
  static const bool is_wide = use_cpu_kind(CpuKind::kAvx512);
  if (!is_wide) return bytes <= kMostBytes;
  return vectors < kAlways || (vectors < kMost && bytes <= kMostBytes512 && rows * width * 4 <= kMostRowBytes);
}

int64_t float_product_rows() {
  static const bool has_tiles = use_cpu_kind(CpuKind::kAmx), is_wide = use_cpu_kind(CpuKind::kAvx512);
  return has_tiles ? 64 : is_wide ? 24 : 32;
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
std::vector<FloatProductKernel> float_products() { return {}; }
FloatProductKernel float_product_available() { return nullptr; }
FloatProductKernel float_product_preferred() { return nullptr; }
SomeVectorsKernel some_vectors_preferred() { return nullptr; }
bool are_some_vectors(int64_t, int64_t, int64_t) { return false; }
int64_t float_product_rows() { return 0; }
bool multiplies_bfloat16() { return true; }
bool multiplies_float16() { return true; }
#endif

}  // namespace easydel::operations::kernels
