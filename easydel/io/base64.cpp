#include "easydel/io/base64.h"

#include <cstdint>

namespace easydel {

std::string base64_encode(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view piece = bytes.substr(i, 3);
    uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < piece.size() ? static_cast<uint8_t>(piece[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= piece.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace easydel
