// Characters of UTF-8 text, and what Python's str methods know about them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace easydel::jinja {

// All of these take valid UTF-8; Template::parse and the conversion of JSON ensure that.
std::size_t count_characters(std::string_view text);
std::size_t byte_of_character(std::string_view text, std::size_t index);  // the size of the text when past the end
char32_t next_character(std::string_view text, std::size_t& byte);        // advances `byte`
char32_t last_character(std::string_view text, std::size_t& end);         // moves `end` back
void append_character(std::string& out, char32_t c);
std::vector<char32_t> characters(std::string_view text);

bool is_space(char32_t c);
bool is_line_break(char32_t c);  // where splitlines splits
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string to_title(std::string_view text);
std::string capitalized(std::string_view text);
std::string swapped_case(std::string_view text);
std::string case_folded(std::string_view text);

}  // namespace easydel::jinja
