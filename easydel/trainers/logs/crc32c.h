// CRC-32C (Castagnoli), and the masked form that TFRecord files store.
#pragma once

#include <cstdint>
#include <string_view>

namespace easydel {

uint32_t crc32c(std::string_view bytes);

// Rotated and offset, since the CRC of data that contains its own CRC is a constant.
inline uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace easydel
