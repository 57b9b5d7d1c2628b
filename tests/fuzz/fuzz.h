// The common harness of all fuzz targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "easydel/core/error.h"

namespace easydel::fuzz {

inline std::span<const std::byte> as_bytes(const uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view as_text(const uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Input may be rejected with an easydel::Error. Any other exception, and any sanitizer report, is a finding.
template <class Read>
int refuse_or(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
  return 0;
}

// Reads every byte, so that the address sanitizer sees it.
inline void touch(std::span<const std::byte> bytes) {
  std::byte seen{};
  for (const std::byte byte : bytes) seen ^= byte;
  asm volatile("" : : "r"(seen));  // or the loop would be dropped
}

inline void touch(std::string_view text) { touch(std::as_bytes(std::span(text))); }

[[noreturn]] inline void found(const char* what) {
  __builtin_printf("finding: %s\n", what);
  __builtin_trap();
}

}  // namespace easydel::fuzz
