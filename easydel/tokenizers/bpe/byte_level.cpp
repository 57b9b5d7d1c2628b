#include "easydel/tokenizers/bpe/byte_level.h"

#include <array>
#include <string>

#include "easydel/core/text/utf8.h"

namespace easydel::byte_level {
namespace {

struct Tables {
  std::array<char32_t, 256> characters{};
  std::array<std::string, 256> texts;
  std::array<int16_t, 512> bytes{};

  Tables() {
    bytes.fill(-1);
    char32_t next = 256;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      characters[byte] = printable ? static_cast<char32_t>(byte) : next++;
      bytes[characters[byte]] = static_cast<int16_t>(byte);
      texts[byte] = utf8::encode(characters[byte]);
    }
  }
};

const Tables& tables() {
  static const Tables instance;
  return instance;
}

}  // namespace

char32_t character_of(uint8_t byte) { return tables().characters[byte]; }
int byte_of(char32_t character) { return character < 512 ? tables().bytes[character] : -1; }
std::string_view text_of(uint8_t byte) { return tables().texts[byte]; }

}  // namespace easydel::byte_level
