// Numbers as printf and Python's format() lay them out.
#pragma once

#include <cstdint>
#include <string>

namespace easydel::jinja {

// "%.*f" and so on, for type e, E, f, F, g or G.
std::string print_real(double value, char type, int precision, bool alternate);
std::string print_integer(int64_t value, int base, bool upper);  // digits without a sign
std::string group_digits(const std::string& digits, char separator, int width);

// Pads a text of `length` characters to a field.
std::string pad(std::string text, std::size_t length, int64_t width, char align, const std::string& fill);

}  // namespace easydel::jinja
