#include "easydel/core/runtime.h"

#include <cpuid.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "easydel/core/build_info.h"
#include "easydel/core/cpu.h"

namespace easydel {
namespace {

RankContext process_rank;
thread_local std::optional<RankContext> thread_rank;

// In an object file that everything links, so that the linker keeps it from a static library.
[[gnu::constructor]] void at_load() {
  limit_torch_to_cpu_kind();
  guard_onednn_isa();
}

}  // namespace

std::string version() { return EASYDEL_VERSION; }

const RankContext& current_rank() { return thread_rank ? *thread_rank : process_rank; }

void set_process_rank(RankContext context) { process_rank = std::move(context); }

RankScope::RankScope(RankContext context) : previous_(std::exchange(thread_rank, std::move(context))) {}
RankScope::~RankScope() { thread_rank = std::move(previous_); }

std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return is_known ? name.data() : "unknown-host";
}

bool amx_is_advertised_but_unusable() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool advertised = (d & (1u << 22)) != 0 || (d & (1u << 24)) != 0;  // amx-bf16, amx-tile
  if (!advertised) return false;
  a = b = c = d = 0;
  return !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a == 0;
#else
  return false;
#endif
}

void guard_onednn_isa() {
  if (amx_is_advertised_but_unusable()) ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);
}

}  // namespace easydel
