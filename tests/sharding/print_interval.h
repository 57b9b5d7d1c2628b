// How gtest shows an interval.
#pragma once

#include <ostream>

#include "easydel/sharding/mesh/interval.h"

namespace easydel {

inline void PrintTo(const Interval& i, std::ostream* out) { *out << "[" << i.begin << ", " << i.end << ")"; }

}  // namespace easydel
