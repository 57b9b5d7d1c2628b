#include "easydel/io/base64.h"

#include <cstdint>

namespace easydel {

std::string base64_encode(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = bytes.size() - i < 3 ? bytes.size() - i : 3;
    uint32_t group = 0;
    for (std::size_t k = 0; k < have; ++k) group |= uint32_t{static_cast<uint8_t>(bytes[i + k])} << (16 - 8 * k);
    for (std::size_t k = 0; k < 4; ++k) text += k <= have ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace easydel
