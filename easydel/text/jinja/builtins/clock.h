// strftime as in Python's datetime.
#pragma once

#include <ctime>
#include <string>

namespace easydel::jinja {

// A naive local time: %z and %Z are empty, %f is six zeros.
std::string format_time(const std::string& format, const std::tm& time);
std::tm local_time_now();

}  // namespace easydel::jinja
