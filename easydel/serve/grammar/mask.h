// Masks of tokens: one bit for each token of a vocabulary, bit t % 32 of word t / 32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace easydel::serve {

inline std::size_t mask_words(int64_t vocab_size) { return static_cast<std::size_t>((vocab_size + 31) / 32); }

inline bool mask_allows(std::span<const int32_t> words, int32_t token) {
  const auto at = static_cast<uint32_t>(token);
  return (static_cast<uint32_t>(words[at / 32]) >> (at % 32) & 1U) != 0;
}

// Sets the logits of tokens that may not come next to -infinity; those beyond the last word too.
inline void apply_mask(std::span<float> logits, std::span<const int32_t> words) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < logits.size(); begin += 32) {
    const uint32_t word = begin / 32 < words.size() ? static_cast<uint32_t>(words[begin / 32]) : 0;
    if (word == ~0U) continue;
    const std::size_t end = begin + 32 < logits.size() ? begin + 32 : logits.size();
    for (std::size_t i = begin; i < end; ++i) logits[i] = (word >> (i - begin) & 1U) != 0 ? logits[i] : kNever;
  }
}

}  // namespace easydel::serve
