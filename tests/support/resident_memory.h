// The resident memory of this process.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace easydel::testing_support {

// A sanitizer delays freeing blocks and uses extra memory: under one, tests run but do not compare sizes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsOurs = false;
#else
inline constexpr bool kMemoryIsOurs = true;
#endif
inline constexpr const char* kMemoryIsNotOurs = "memory is not measured under a sanitizer";

// From now on freed blocks above 64 KiB are returned to the system at once, so that resident memory is what is in use.
inline void return_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 64 * 1024);
}

inline int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

inline int64_t resident_bytes() { return status_bytes("VmRSS"); }
inline int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }
inline void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace easydel::testing_support
