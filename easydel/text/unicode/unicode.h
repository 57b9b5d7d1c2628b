// What Unicode says about a character, and its normal forms. Beyond ASCII the tables are utf8proc's: a component that
// needs them asks for them when it is read.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace easydel::unicode {

// Throws NotSupportedError, naming the Debian package, when this build has no utf8proc.
void require_tables(std::string_view who);

bool is_whitespace(char32_t code);  // White_Space; needs no tables
bool is_numeric(char32_t code);     // N
bool is_word(char32_t code);        // \w of Rust: Alphabetic, M, Nd, Pc and the joiners

// As the tokenizers package has them, whose tables are of older versions of Unicode. They need none of utf8proc's.
bool is_punctuation(char32_t code);  // P, and every ASCII symbol
bool is_mark(char32_t code);         // M
bool is_nonspacing_mark(char32_t code);
bool is_other(char32_t code);  // C, as far as it is assigned

enum class Kind : uint8_t { kOther, kLetter, kNumber, kSpace };
Kind kind_of(char32_t code);  // the four classes that split patterns ask for

char32_t to_lower(char32_t code);  // U+0130 becomes two, which the caller sees to

// How far the extended grapheme cluster at the start of `text` reaches.
std::size_t grapheme_length(std::string_view text);

enum class Form { kNFC, kNFD, kNFKC, kNFKD };

// A character of a new text and what it stands for: 0 replaces the next character of the old text, 1 is added behind
// it, -n replaces it and removes n more.
using Change = std::pair<char32_t, int32_t>;

bool is_normal(std::string_view text, Form form);  // false may be said of a text that is
std::vector<Change> normalize(std::string_view text, Form form);

}  // namespace easydel::unicode
