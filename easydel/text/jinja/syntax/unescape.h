// The escapes of string literals, as Python's unicode-escape codec reads them.
#pragma once

#include <string>
#include <string_view>

namespace easydel::jinja {

// The text between the quotes; the line is for errors.
std::string unescape(std::string_view literal, int line);

}  // namespace easydel::jinja
