// A range of bytes of a text.
#pragma once

#include <cstdint>

namespace easydel {

struct Offset {
  uint32_t begin = 0, end = 0;
  friend bool operator==(const Offset&, const Offset&) = default;
};

}  // namespace easydel
