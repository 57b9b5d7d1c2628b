// Which addresses are on the public internet, by IANA's registries of special purpose.
#pragma once

#include <string>

struct sockaddr;

namespace easydel {

// False for those of this machine, of private networks, of groups and of documentation, and for all that are not IPv4
// or IPv6.
bool is_public_address(const sockaddr* address);
bool is_public_address(const std::string& text);  // "93.184.216.34", "2606:4700::1111"

}  // namespace easydel
