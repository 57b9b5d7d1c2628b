// Unicode properties and normal forms. Beyond ASCII the tables are utf8proc's: a component that needs them requires
// them when it is loaded.
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

// As in the tokenizers package, whose tables are from older versions of Unicode. These do not need utf8proc.
bool is_punctuation(char32_t code);  // P, and every ASCII symbol
bool is_mark(char32_t code);         // M
bool is_nonspacing_mark(char32_t code);
bool is_other(char32_t code);  // C, except unassigned

enum class Kind : uint8_t { kOther, kLetter, kNumber, kSpace };
Kind kind_of(char32_t code);  // the four classes that split patterns use

char32_t to_lower(char32_t code);  // U+0130 becomes two, which the caller handles

// The length of the extended grapheme cluster at the start of `text`.
std::size_t grapheme_length(std::string_view text);

enum class Form { kNFC, kNFD, kNFKC, kNFKD };

// A character of a new text and how it relates to the old: 0 replaces the next character of the old text, 1 is inserted
// after it, -n replaces it and removes n more.
using Change = std::pair<char32_t, int32_t>;

bool is_normal(std::string_view text, Form form);  // may return false for a normal text
std::vector<Change> normalize(std::string_view text, Form form);

}  // namespace easydel::unicode
