// A name from a file as messages show it.
#pragma once

#include <ostream>
#include <string_view>

#include "easydel/core/json.h"

namespace easydel {

// Prints in quotes, with control characters escaped, and cut when it is long; costs nothing until it is printed. The
// name must be UTF-8.
struct Quoted {
  std::string_view name;
};

inline Quoted quoted(std::string_view name) { return {name}; }

inline std::ostream& operator<<(std::ostream& out, Quoted quoted) {
  constexpr std::size_t kShown = 100;
  const std::string_view name = quoted.name;
  if (name.size() <= kShown) return out << Json(name).dump();
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return out << Json(name.substr(0, end)).dump() << "…";
}

}  // namespace easydel
