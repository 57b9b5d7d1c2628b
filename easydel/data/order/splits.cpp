#include <charconv>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/data/sources/data_files.h"

namespace easydel::data {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  fail<ConfigError>("[split] must be a name, or a name with a slice: train, train[:1000], train[10%:20%]; got \"", text,
                    "\".");
}

// One end of a slice, counted from the end when negative.
int64_t bound(std::string_view text, int64_t rows, int64_t otherwise, const std::string& slice) {
  if (text.empty()) return otherwise;
  const bool percent = text.back() == '%';
  if (percent) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse("[" + slice + "]");
  if (percent) {
    if (value < -100 || value > 100) refuse("[" + slice + "]");
    value = static_cast<int64_t>(std::llround(static_cast<double>(value) / 100 * static_cast<double>(rows)));
  }
  return value < 0 ? rows + value : value;
}

}  // namespace

Split parse_split(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos) return {text, ""};
  if (open == 0 || text.back() != ']') refuse(text);
  Split split{text.substr(0, open), text.substr(open + 1, text.size() - open - 2)};
  if (split.slice.find(':') == std::string::npos) refuse(text);
  slice_bounds(split.slice, 1);
  return split;
}

std::pair<int64_t, int64_t> slice_bounds(const std::string& slice, int64_t rows) {
  if (slice.empty()) return {0, rows};
  const std::string_view text = slice;
  const std::size_t colon = text.find(':');
  return {bound(text.substr(0, colon), rows, 0, slice), bound(text.substr(colon + 1), rows, rows, slice)};
}

}  // namespace easydel::data
