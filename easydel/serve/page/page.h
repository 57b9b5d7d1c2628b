// The pages that `easydel serve` shows in a browser; each is one file that asks no other host for anything.
#pragma once

#include <string_view>

namespace easydel::serve {

// The HTML of "chat" or "dashboard"; empty for other names.
std::string_view page(std::string_view name);

}  // namespace easydel::serve
