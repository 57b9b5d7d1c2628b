// Hand-written scanners for the split patterns of most models: several times faster than a regular expression.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace easydel {

enum class KnownSplit : uint8_t {
  kGpt2,         // 's|'t|… | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kThreeDigits,  // cl100k and Llama 3: \p{N}{1,3}
  kOneDigit,     // Qwen 2: \p{N}
};

std::optional<KnownSplit> known_split(std::string_view pattern);

// The end of the word that starts at `at`. These patterns match everywhere, so words follow one another without gaps.
std::size_t end_of_word(KnownSplit split, std::string_view text, std::size_t at);

}  // namespace easydel
