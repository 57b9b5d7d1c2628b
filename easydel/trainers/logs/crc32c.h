// CRC-32C (Castagnoli), and the masked form that TFRecord files store.
#pragma once

#include <cstdint>
#include <string_view>

namespace easydel {

uint32_t crc32c(std::string_view bytes);

// Rotated and moved, so that the sum of data that holds sums is no special number.
inline uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace easydel
