// URL helpers. Those that parse a URL use libcurl, which is what will connect to it.
#pragma once

#include <string>
#include <string_view>

namespace easydel {

// The origin of a URL, "https://host:443": equal for two URLs of the same server. FormatError on an invalid URL.
std::string url_origin(const std::string& url);
// The host's name in lower case, or its address. FormatError on an invalid URL.
std::string url_host(const std::string& url);
std::string url_join(const std::string& base, const std::string& reference);

// Percent-encodes everything but letters, digits, "-._~" and the characters in `keep`.
std::string url_escape(std::string_view text, std::string_view keep = "");

}  // namespace easydel
