#include "easydel/io/hub/portable_sha.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace easydel {
namespace {

constexpr std::array<uint32_t, 64> kSha256Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress_sha256(std::array<uint32_t, 8>& s, std::array<uint32_t, 80>& w) {
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const uint32_t t1 = s[7] + s1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + kSha256Constants[i] + w[i];
    const uint32_t s0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const uint32_t t2 = s0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
}

void compress_sha1(std::array<uint32_t, 8>& s, std::array<uint32_t, 80>& w) {
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  for (int i = 0; i < 80; ++i) {
    const uint32_t choose = (s[1] & s[2]) | (~s[1] & s[3]), parity = s[1] ^ s[2] ^ s[3];
    const uint32_t majority = (s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3]);
    const uint32_t mixed = i < 20   ? choose + 0x5a827999
                           : i < 40 ? parity + 0x6ed9eba1
                           : i < 60 ? majority + 0x8f1bbcdc
                                    : parity + 0xca62c1d6;
    s = {std::rotl(s[0], 5) + mixed + s[4] + w[i], s[0], std::rotl(s[1], 30), s[2], s[3]};
  }
}

}  // namespace

PortableSha::PortableSha(bool is_sha256)
    : is_sha256_(is_sha256),
      state_(is_sha256 ? std::array<uint32_t, 8>{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                                 0x1f83d9ab, 0x5be0cd19}
                       : std::array<uint32_t, 8>{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}) {}

void PortableSha::add_block() {
  std::array<uint32_t, 80> words{};
  for (std::size_t i = 0; i < 64; ++i) words[i / 4] = words[i / 4] << 8 | block_[i];
  const std::array<uint32_t, 8> before = state_;
  (is_sha256_ ? compress_sha256 : compress_sha1)(state_, words);
  for (std::size_t i = 0; i < 8; ++i) state_[i] += before[i];
}

void PortableSha::update(const void* data, std::size_t size) {
  for (const auto* bytes = static_cast<const uint8_t*>(data); size > 0;) {
    const std::size_t held = size_ % 64, taken = std::min(size, 64 - held);
    std::memcpy(block_.data() + held, bytes, taken);
    size_ += taken;
    bytes += taken;
    size -= taken;
    if (size_ % 64 == 0) add_block();
  }
}

std::vector<uint8_t> PortableSha::digest() {
  const uint64_t bits = size_ * 8;
  std::vector<uint8_t> padding(1 + (119 - size_ % 64) % 64 + 8);  // up to the end of a block
  padding[0] = 0x80;
  for (std::size_t i = 0; i < 8; ++i) padding[padding.size() - 8 + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(padding.data(), padding.size());
  std::vector<uint8_t> result(is_sha256_ ? 32 : 20);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - i % 4 * 8));
  return result;
}

}  // namespace easydel
