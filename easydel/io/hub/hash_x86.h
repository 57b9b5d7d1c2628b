// The block functions of SHA-256 and SHA-1 on the SHA extensions of x86; only hash.cpp includes this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace easydel {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
extern const std::array<uint32_t, 64> kSha256Constants;

// To be called only when cpu_has_sha_instructions() is true.
void sha256_x86(std::array<uint32_t, 8>& state, const uint8_t* blocks, std::size_t count);
void sha1_x86(std::array<uint32_t, 5>& state, const uint8_t* blocks, std::size_t count);

}  // namespace easydel
