// Methods of Python's str that metrics and filters use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace easydel {

std::string_view python_strip_view(std::string_view text);  // of white space, on both sides
inline std::string python_strip(std::string_view text) { return std::string(python_strip_view(text)); }
// lstrip and rstrip of one character, any number of times.
std::string_view strip_left(std::string_view text, char c);
std::string_view strip_right(std::string_view text, char c);
std::vector<std::string_view> python_split(std::string_view text, std::string_view separator);
std::string python_replace(std::string_view text, std::string_view from, std::string_view to);

}  // namespace easydel
