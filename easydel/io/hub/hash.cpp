#include "easydel/io/hub/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/io/hub/hash_x86.h"

namespace easydel {

namespace {

constexpr std::array<uint32_t, 8> kSha256Initial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<uint32_t, 5> kSha1Initial = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

uint32_t load_big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

// Eight rounds at a time, so that the working variables are renamed instead of moved.
void sha256_portable(std::array<uint32_t, 8>& state, const uint8_t* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = load_big_endian(blocks + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    int i = 0;
    const auto round = [&](uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e, uint32_t f, uint32_t g,
                           uint32_t& h) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + (g ^ (e & (f ^ g))) + kSha256Constants[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      d += t1;
      h = t1 + s0 + ((a & b) | (c & (a | b)));
      ++i;
    };
    while (i < 64) {
      round(a, b, c, d, e, f, g, h);
      round(h, a, b, c, d, e, f, g);
      round(g, h, a, b, c, d, e, f);
      round(f, g, h, a, b, c, d, e);
      round(e, f, g, h, a, b, c, d);
      round(d, e, f, g, h, a, b, c);
      round(c, d, e, f, g, h, a, b);
      round(b, c, d, e, f, g, h, a);
    }
    const std::array<uint32_t, 8> change = {a, b, c, d, e, f, g, h};
    for (int word = 0; word < 8; ++word) state[word] += change[word];
  }
}

void sha1_portable(std::array<uint32_t, 5>& state, const uint8_t* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += 64) {
    uint32_t w[80];
    for (int i = 0; i < 16; ++i) w[i] = load_big_endian(blocks + 4 * i);
    for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = state;
    int i = 0;
    const auto rounds = [&](uint32_t constant, auto mix) {
      for (const int end = i + 20; i < end; i += 5) {
        const auto round = [&](int at, uint32_t a, uint32_t& b, uint32_t c, uint32_t d, uint32_t& e) {
          e += std::rotl(a, 5) + mix(b, c, d) + constant + w[at];
          b = std::rotl(b, 30);
        };
        round(i, a, b, c, d, e);
        round(i + 1, e, a, b, c, d);
        round(i + 2, d, e, a, b, c);
        round(i + 3, c, d, e, a, b);
        round(i + 4, b, c, d, e, a);
      }
    };
    const auto parity = [](uint32_t x, uint32_t y, uint32_t z) { return x ^ y ^ z; };
    rounds(0x5a827999, [](uint32_t x, uint32_t y, uint32_t z) { return z ^ (x & (y ^ z)); });
    rounds(0x6ed9eba1, parity);
    rounds(0x8f1bbcdc, [](uint32_t x, uint32_t y, uint32_t z) { return (x & y) | (z & (x | y)); });
    rounds(0xca62c1d6, parity);
    const std::array<uint32_t, 5> change = {a, b, c, d, e};
    for (int word = 0; word < 5; ++word) state[word] += change[word];
  }
}

}  // namespace

template <std::size_t kWords>
void Sha<kWords>::update(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  const std::size_t held = size_ % 64;
  size_ += size;
  if (held > 0) {
    const std::size_t taken = std::min(size, 64 - held);
    std::memcpy(block_.data() + held, bytes, taken);
    if (held + taken < 64) return;
    compress_(state_, block_.data(), 1);
    bytes += taken;
    size -= taken;
  }
  compress_(state_, bytes, size / 64);
  if (size % 64 > 0) std::memcpy(block_.data(), bytes + size / 64 * 64, size % 64);
}

template <std::size_t kWords>
typename Sha<kWords>::Digest Sha<kWords>::digest() {
  const uint64_t bits = size_ * 8;
  std::array<uint8_t, 72> padding{0x80};
  const std::size_t zeros = (119 - size_ % 64) % 64;  // after the 0x80, up to the last eight bytes of a block
  for (int i = 0; i < 8; ++i) padding[1 + zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(padding.data(), 1 + zeros + 8);
  Digest result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - i % 4 * 8));
  return result;
}

template <std::size_t kWords>
std::string Sha<kWords>::hex() {
  return to_hex(digest());
}

template class Sha<8>;
template class Sha<5>;

Sha256::Sha256(bool use_cpu_instructions)
    : Sha(kSha256Initial, use_cpu_instructions && cpu_has_sha_instructions() ? sha256_x86 : sha256_portable) {}

Sha1::Sha1(bool use_cpu_instructions)
    : Sha(kSha1Initial, use_cpu_instructions && cpu_has_sha_instructions() ? sha1_x86 : sha1_portable) {}

std::string to_hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view content) {
  Sha256 hash;
  hash.update(content);
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require<IoError>(file.is_open(), "[sha256] cannot open ", path.string(), ": ", errno_text(errno), ".");
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    hash.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  require<IoError>(file.eof(), "[sha256] cannot read ", path.string(), ": ", errno_text(errno), ".");
  return hash.hex();
}

std::string git_blob_hash(std::string_view content) {
  Sha1 hash;
  hash.update(concat("blob ", content.size()));
  hash.update("\0", 1);
  hash.update(content);
  return hash.hex();
}

}  // namespace easydel
