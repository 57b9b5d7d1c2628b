#include "easydel/io/hub/hash_x86.h"

#include "easydel/io/hub/hash.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <cstdlib>

namespace easydel {

const std::array<uint32_t, 64> kSha256Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#if defined(__x86_64__)

bool cpu_has_sha_instructions() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    return (b >> 29 & 1) != 0 && __builtin_cpu_supports("sse4.1");
  }();
  return has;
}

namespace {

// Sixteen bytes of the message as four big-endian words, the first in the lowest lane.
[[gnu::target("sse4.1,ssse3")]] inline __m128i load_words(const uint8_t* bytes) {
  const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)), swap);
}

}  // namespace

// The instructions hold the state as (a, b, e, f) and (c, d, g, h) and do two rounds each.
[[gnu::target("sha,sse4.1,ssse3")]] void sha256_x86(std::array<uint32_t, 8>& state, const uint8_t* blocks,
                                                    std::size_t count) {
  __m128i abef = _mm_set_epi32(state[0], state[1], state[4], state[5]);
  __m128i cdgh = _mm_set_epi32(state[2], state[3], state[6], state[7]);
  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = load_words(blocks + 16 * i);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __m128i constants = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&kSha256Constants[4 * i]));
      const __m128i sum = _mm_add_epi32(w[i % 4], constants);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (i < 12) {  // the words of rounds 4i + 16 to 4i + 19 take the place of those just used
        const __m128i middle = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
        const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), middle);
        w[i % 4] = _mm_sha256msg2_epu32(partial, w[(i + 3) % 4]);
      }
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) uint32_t words[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(words + 4), cdgh);
  state = {words[3], words[2], words[7], words[6], words[1], words[0], words[5], words[4]};
}

// The state is (a, b, c, d), a in the highest lane, and e; each instruction does four rounds.
[[gnu::target("sha,sse4.1,ssse3")]] void sha1_x86(std::array<uint32_t, 5>& state, const uint8_t* blocks,
                                                  std::size_t count) {
  __m128i abcd = _mm_set_epi32(state[0], state[1], state[2], state[3]);
  __m128i e = _mm_set_epi32(state[4], 0, 0, 0);
  for (; count > 0; --count, blocks += 64) {
    const __m128i abcd_before = abcd, e_before = e;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi32(load_words(blocks + 16 * i), 0x1b);
    __m128i previous = abcd;  // its a, rotated by 30, is the e of the next four rounds
#pragma GCC unroll 20
    for (int i = 0; i < 20; ++i) {
      const __m128i sum = i == 0 ? _mm_add_epi32(e, w[0]) : _mm_sha1nexte_epu32(previous, w[i % 4]);
      previous = abcd;
      switch (i / 5) {  // which mixing function and constant: an immediate operand
        case 0: abcd = _mm_sha1rnds4_epu32(abcd, sum, 0); break;
        case 1: abcd = _mm_sha1rnds4_epu32(abcd, sum, 1); break;
        case 2: abcd = _mm_sha1rnds4_epu32(abcd, sum, 2); break;
        default: abcd = _mm_sha1rnds4_epu32(abcd, sum, 3); break;
      }
      if (i < 16) {  // the words of rounds 4i + 16 to 4i + 19 take the place of those just used
        const __m128i partial = _mm_xor_si128(_mm_sha1msg1_epu32(w[i % 4], w[(i + 1) % 4]), w[(i + 2) % 4]);
        w[i % 4] = _mm_sha1msg2_epu32(partial, w[(i + 3) % 4]);
      }
    }
    e = _mm_sha1nexte_epu32(previous, e_before);
    abcd = _mm_add_epi32(abcd, abcd_before);
  }
  alignas(16) uint32_t words[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), abcd);
  state = {words[3], words[2], words[1], words[0], static_cast<uint32_t>(_mm_extract_epi32(e, 3))};
}

#else

bool cpu_has_sha_instructions() { return false; }
void sha256_x86(std::array<uint32_t, 8>&, const uint8_t*, std::size_t) { std::abort(); }
void sha1_x86(std::array<uint32_t, 5>&, const uint8_t*, std::size_t) { std::abort(); }

#endif

}  // namespace easydel
