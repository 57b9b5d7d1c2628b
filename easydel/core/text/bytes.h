// Sizes in bytes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace easydel {

// "5GB" is 5 * 10^9 and "5GiB" is 5 * 2^30, as in Hugging Face's max_shard_size; a bare number is rejected.
// ConfigError on anything else, on a negative size and on one past 2^63.
int64_t parse_bytes(std::string_view text);

std::string format_bytes(int64_t bytes);  // "1.5 GiB"

// "1,234,567"
std::string group_digits(int64_t value);

}  // namespace easydel
