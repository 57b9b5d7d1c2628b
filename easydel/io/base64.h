// Base64 of RFC 4648, with padding.
#pragma once

#include <string>
#include <string_view>

namespace easydel {

std::string base64_encode(std::string_view bytes);

}  // namespace easydel
