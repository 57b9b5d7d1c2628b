#include "easydel/core/text/utf8.h"

#include <algorithm>
#include <cstring>

namespace easydel::utf8 {
namespace {

// How many bytes at the start of `text` may begin one character, by table 3-7 of the Unicode standard: all of its bytes
// when it is whole, 0 when no character starts so.
std::size_t well_formed(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return 1;
  const std::size_t length = length_of_lead(text[0]);
  for (std::size_t i = 2; i < length; ++i) {
    if (i >= text.size() || !is_continuation(text[i])) return i;
  }
  return length;
}

}  // namespace

std::size_t valid_length(std::string_view text) {
  const std::size_t length = well_formed(text);
  return length == length_of_lead(text[0]) ? length : 0;
}

std::string lossy(std::string_view bytes) {
  std::string out;
  while (true) {
    const std::size_t bad = invalid_utf8(bytes);
    if (bad == std::string_view::npos) {
      out += bytes;
      return out;
    }
    out += bytes.substr(0, bad);
    out += "\xEF\xBF\xBD";
    bytes.remove_prefix(bad);
    bytes.remove_prefix(std::max<std::size_t>(well_formed(bytes), 1));
  }
}

}  // namespace easydel::utf8

namespace easydel {

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t length = utf8::valid_length(text.substr(i)); length != 1) {
      if (length == 0) return i;
      i += length;
      continue;
    }
    ++i;
    for (uint64_t eight; i + 8 <= text.size(); i += 8) {  // plain ASCII, which is nearly all there is
      std::memcpy(&eight, text.data() + i, 8);
      if (eight & 0x8080808080808080) break;
    }
  }
  return std::string_view::npos;
}

}  // namespace easydel
