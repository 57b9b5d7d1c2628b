// GPT-2's printable characters for the 256 bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace easydel::byte_level {

char32_t character_of(uint8_t byte);
int byte_of(char32_t character);         // -1: none
std::string_view text_of(uint8_t byte);  // character_of in UTF-8

inline constexpr char32_t kSpace = 0x120;

}  // namespace easydel::byte_level
