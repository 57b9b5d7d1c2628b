// The few things that are done with URLs. Those that take one apart use libcurl, which is what will connect to it.
#pragma once

#include <string>
#include <string_view>

namespace easydel {

// "https://host:443" of a URL: what decides whether two URLs are the same server. FormatError when it is no such URL.
std::string url_origin(const std::string& url);
std::string url_join(const std::string& base, const std::string& reference);

// Everything but letters, digits and "-._~" becomes %XX, save for the characters in `keep`.
std::string url_escape(std::string_view text, std::string_view keep = "");

}  // namespace easydel
