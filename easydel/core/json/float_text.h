// Floats as Python's repr writes them.
#pragma once

#include <string>

namespace easydel {

// The shortest representation that round-trips, 1e-05 or 10000.0. For finite values.
void append_float(double value, std::string& out);

}  // namespace easydel
