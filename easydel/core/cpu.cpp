#include "easydel/core/cpu.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "easydel/core/error.h"
#include "easydel/core/runtime.h"
#include "easydel/core/text/quoted.h"

namespace easydel {
namespace {

constexpr std::array kKindNames = {"baseline", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "amx"};

std::optional<CpuKind> find_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<CpuKind>(found - kKindNames.begin());
}

const char* wanted_name() {
  const char* name = std::getenv("EASYDEL_CPU");
  return name && *name ? name : nullptr;
}

// Tiles of bfloat16, with the state of their registers granted by the kernel to this process.
bool has_amx() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kBfloat16) == 0 || (d & kTiles) == 0) return false;
  if (amx_is_advertised_but_unusable()) return false;
  constexpr long kRequestState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

const char* to_string(CpuKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::vector<CpuKind> cpu_kinds() {
  std::vector<CpuKind> kinds{CpuKind::kBaseline};
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return kinds;
  kinds.push_back(CpuKind::kAvx2);
  if (__builtin_cpu_supports("avxvnni")) kinds.push_back(CpuKind::kAvx2Vnni);
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return kinds;
  }
  kinds.push_back(CpuKind::kAvx512);
  if (!__builtin_cpu_supports("avx512vnni")) return kinds;
  kinds.push_back(CpuKind::kAvx512Vnni);
  if (has_amx()) kinds.push_back(CpuKind::kAmx);
#endif
  return kinds;
}

CpuKind cpu_kind() {
  static const CpuKind kind = [] {
    const std::vector<CpuKind> kinds = cpu_kinds();
    const char* name = wanted_name();
    if (!name) return kinds.back();
    const std::optional<CpuKind> wanted = find_kind(name);
    if (wanted && std::find(kinds.begin(), kinds.end(), *wanted) != kinds.end()) return *wanted;
    std::string known;
    for (const CpuKind k : kinds) known += concat(known.empty() ? "" : ", ", to_string(k));
    fail<ConfigError>("[EASYDEL_CPU] this machine supports ", known, "; got ", quoted(name), ".");
  }();
  return kind;
}

bool use_cpu_kind(CpuKind kind) {
  static const std::vector<CpuKind> kinds = cpu_kinds();
  return kind <= cpu_kind() && std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

void select_cpu_kind(const std::string& name) {
  ::setenv("EASYDEL_CPU", name.c_str(), /*overwrite=*/1);
  limit_torch_to_cpu_kind();
}

void limit_torch_to_cpu_kind() {
  const char* name = wanted_name();
  const std::optional<CpuKind> kind = name ? find_kind(name) : std::nullopt;
  if (!kind || *kind >= CpuKind::kAmx) return;
  if (*kind >= CpuKind::kAvx512) {
    ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);
    return;
  }
  const bool avx2 = *kind >= CpuKind::kAvx2;
  ::setenv("ATEN_CPU_CAPABILITY", avx2 ? "avx2" : "default", /*overwrite=*/0);
  ::setenv("ONEDNN_MAX_CPU_ISA", *kind == CpuKind::kAvx2Vnni ? "AVX2_VNNI" : avx2 ? "AVX2" : "SSE41", /*overwrite=*/0);
  ::setenv("MKL_ENABLE_INSTRUCTIONS", avx2 ? "AVX2" : "SSE4_2", /*overwrite=*/0);
}

}  // namespace easydel
