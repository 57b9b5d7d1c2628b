// A name from a file as messages show it.
#pragma once

#include <string>
#include <string_view>

#include "easydel/core/json.h"

namespace easydel {

// In quotes, with control characters escaped, and cut when it is long. The name must be UTF-8.
inline std::string quoted(std::string_view name) {
  constexpr std::size_t kShown = 100;
  if (name.size() <= kShown) return Json(name).dump();
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return Json(name.substr(0, end)).dump() + "…";
}

}  // namespace easydel
