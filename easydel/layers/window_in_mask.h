// Windows that no rule of a mask can say.
#pragma once

#include <cstdint>

namespace easydel {

// As the sliding_window of a context's mask: the explicit mask has the layer's window in it, so the layer adds none.
inline constexpr int64_t kWindowInMask = -1;

}  // namespace easydel
