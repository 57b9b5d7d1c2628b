// Numbers as people read them.
#pragma once

#include <string>

namespace easydel {

// By a format of printf's for one double.
std::string formatted(const char* format, double value);
// About four digits that say something: 0.2310, 12.34, 1234, 1.23e+06.
std::string short_number(double value);
// "1,234 tok/s", "12.3k tok/s"
std::string tokens_per_second_text(double tokens);
// "2026-11-17 04:03:29 UTC", of seconds since 1970.
std::string date_text(double seconds);

}  // namespace easydel
