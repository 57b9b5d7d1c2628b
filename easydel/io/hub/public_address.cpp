#include "easydel/io/hub/public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace easydel {
namespace {

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// IANA's registries of special purpose: what is not on the public internet.
bool is_public_v4(uint32_t address) {
  struct Block {
    uint32_t first;
    int bits;
  };
  constexpr Block kBlocks[] = {{0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},  {0xa9fe0000, 16},
                               {0xac100000, 12}, {0xc0000000, 24}, {0xc0000200, 24}, {0xc0a80000, 16}, {0xc6120000, 15},
                               {0xc6336400, 24}, {0xcb007100, 24}, {0xe0000000, 3}};
  return std::none_of(std::begin(kBlocks), std::end(kBlocks),
                      [&](const Block& block) { return (address ^ block.first) >> (32 - block.bits) == 0; });
}

bool is_public_v6(const uint8_t* bytes) {
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr uint8_t kTranslated[12] = {0, 0x64, 0xff, 0x9b};
  if (std::memcmp(bytes, kMapped, 12) == 0 || std::memcmp(bytes, kTranslated, 12) == 0)
    return is_public_v4(big_endian(bytes + 12));
  const bool is_unicast = bytes[0] >> 5 == 1;  // 2000::/3
  const bool is_6to4 = bytes[0] == 0x20 && bytes[1] == 0x02;
  const bool is_special =
      bytes[0] == 0x20 && bytes[1] == 0x01 && (bytes[2] < 2 || (bytes[2] == 0x0d && bytes[3] == 0xb8));
  return is_unicast && !is_6to4 && !is_special;
}

}  // namespace

bool is_public_address(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return is_public_v4(ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
  if (address->sa_family == AF_INET6)
    return is_public_v6(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr.s6_addr);
  return false;
}

bool is_public_address(const std::string& text) {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return is_public_v4(ntohl(four.s_addr));
  return inet_pton(AF_INET6, text.c_str(), &six) == 1 && is_public_v6(six.s6_addr);
}

}  // namespace easydel
