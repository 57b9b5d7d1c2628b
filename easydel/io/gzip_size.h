// The compressed size of a text.
#pragma once

#include <cstdint>
#include <string_view>

namespace easydel {

// Bytes of the text after gzip -9, and after Python's zlib.compress. NotSupportedError in a build without zlib.
int64_t gzip_size(std::string_view text);
int64_t zlib_size(std::string_view text);

}  // namespace easydel
