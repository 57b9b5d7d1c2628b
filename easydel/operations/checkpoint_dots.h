// For operations that are computed in another way where a checkpoint keeps their result.
#pragma once

#include <string_view>

namespace easydel::operations {

// Inside a checkpoint, on the calling thread, that keeps the dot of that name.
bool keeps_dot(std::string_view name);

}  // namespace easydel::operations
