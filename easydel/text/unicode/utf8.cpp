#include "easydel/text/unicode/utf8.h"

#include "easydel/core/json/json.h"

namespace easydel::utf8 {
namespace {

// The number of bytes at the start of `bytes` that form one invalid sequence; at least 1.
std::size_t broken_length(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const std::size_t length = length_of_lead(bytes[0]);
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return i;
    unsigned low = 0x80;
    unsigned high = 0xBF;
    if (i == 1) {
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (byte(i) < low || byte(i) > high) return i;
  }
  return length;
}

}  // namespace

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
    bytes.remove_prefix(broken_length(bytes));
  }
}

}  // namespace easydel::utf8
