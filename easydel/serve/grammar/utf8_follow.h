// Which tokens may follow which, so that an answer's bytes are characters. xgrammar takes three bytes of a surrogate,
// and forms that are longer than need be, for one character; a reader sees three replacement characters instead.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace easydel::serve {

class Utf8Follow {
 public:
  explicit Utf8Follow(std::span<const std::string> tokens);  // their bytes, by id

  // Whether these bytes can be part of a text: they may begin and end within a character.
  static bool is_possible(std::string_view bytes);

  // Takes away what may not follow `last`, unless nothing would be left.
  void restrict(int32_t last, std::span<int32_t> words) const;

 private:
  // Bytes of which the next one has a smaller range than 0x80 to 0xBF.
  struct Lead {
    unsigned char byte, least, most;
  };
  static constexpr std::array<Lead, 4> kLeads{
      {{0xE0, 0xA0, 0xBF}, {0xED, 0x80, 0x9F}, {0xF0, 0x90, 0xBF}, {0xF4, 0x80, 0x8F}}};
  static const Lead* find(unsigned char byte);
  static bool fits(const Lead& lead, unsigned char next);

  std::vector<unsigned char> last_;                        // byte of each token; 0 without any
  std::array<std::vector<int32_t>, kLeads.size()> masks_;  // what may follow each of the leads
};

}  // namespace easydel::serve
