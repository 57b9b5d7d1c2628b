#include "easydel/core/error.h"

#include <algorithm>
#include <system_error>
#include <vector>

namespace easydel {

std::string errno_text(int code) { return std::generic_category().message(code); }

std::size_t edit_distance(const std::string& a, const std::string& b) {
  constexpr std::size_t kMaxLength = 1000;  // longer names are not typos; names from files can be any length
  if (std::max(a.size(), b.size()) > kMaxLength) return a == b ? 0 : std::max(a.size(), b.size());
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace easydel
