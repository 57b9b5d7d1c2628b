// The parts of Python's string methods that filters share with them.
#pragma once

#include <cstdint>

#include <string>
#include <string_view>
#include <vector>

#include "easydel/text/jinja/runtime.h"

namespace easydel::jinja {

std::string strip(std::string_view text, bool left, bool right);
std::string strip(std::string_view text, bool left, bool right, std::string_view characters);

// The first or last position of the mark, or npos, in linear time, which std::string_view::find does not guarantee.
std::size_t find_text(std::string_view text, std::string_view mark, std::size_t from = 0);
std::size_t find_last_text(std::string_view text, std::string_view mark);

// Splits at white space, or at a separator; a negative limit means no limit. The parts refer to the text.
std::vector<std::string_view> split(Runtime& runtime, std::string_view text, int64_t limit);
std::vector<std::string_view> split_right(Runtime& runtime, std::string_view text, int64_t limit);
std::vector<std::string_view> split(Runtime& runtime, std::string_view text, std::string_view separator, int64_t limit);
std::vector<std::string_view> split_right(Runtime& runtime, std::string_view text, std::string_view separator,
                                          int64_t limit);
std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text, bool keep_ends);

std::string replace(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to, int64_t count);

// '<', '>', or 'c' for Python's center.
std::string justify(Runtime& runtime, const std::string& text, int64_t width, char align, const std::string& fill);

}  // namespace easydel::jinja
