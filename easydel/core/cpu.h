// The kind of CPU that kernels are chosen for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace easydel {

// In ascending order; a CPU of one kind does not have all lower ones (AVX2 with VNNI and AVX-512 without it both
// exist).
enum class CpuKind : uint8_t { kBaseline, kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAmx };

const char* to_string(CpuKind kind);  // "baseline", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "amx"

std::vector<CpuKind> cpu_kinds();  // those that this machine has, in ascending order

// The kind in use: the highest of this machine, unless EASYDEL_CPU names a lower one, which torch's own kernels are
// then held to as well (avx512 and avx512_vnni: to those without AMX). ConfigError if EASYDEL_CPU names no kind of this
// machine. Decided at the first call.
CpuKind cpu_kind();

// Whether kernels of `kind` may run: this machine has it, and EASYDEL_CPU does not name a lower one.
bool use_cpu_kind(CpuKind kind);

// Sets EASYDEL_CPU, as `easydel --cpu` does; before the first use of torch or of cpu_kind.
void select_cpu_kind(const std::string& name);

// Tells ATen, oneDNN and MKL about EASYDEL_CPU, unless the user has set their own variables. The library calls this
// when it is loaded, and select_cpu_kind does.
void limit_torch_to_cpu_kind();

}  // namespace easydel
