// The pages of the server, each one embedded file.
#pragma once

#include <string_view>

namespace easydel::serve {

// "chat" or "dashboard", as HTML; empty for any other name.
std::string_view page(std::string_view name);

}  // namespace easydel::serve
