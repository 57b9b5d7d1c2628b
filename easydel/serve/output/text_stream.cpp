#include "easydel/serve/output/text_stream.h"

#include <algorithm>
#include <utility>

namespace easydel::serve {

StopMatcher::StopMatcher(std::vector<std::string> strings, bool includes_stop)
    : strings_(std::move(strings)), includes_stop_(includes_stop) {}

std::string StopMatcher::add(const std::string& text) {
  if (matched_) return "";
  if (strings_.empty()) return text;
  held_ += text;
  std::size_t first = std::string::npos;
  for (const std::string& stop : strings_) {
    const std::size_t at = held_.find(stop);
    if (at >= first) continue;  // npos, too
    first = at;
    matched_ = stop;
  }
  if (matched_) return held_.substr(0, first + (includes_stop_ ? matched_->size() : 0));
  // The longest end of the text that a stop string begins with.
  std::size_t keep = 0;
  for (const std::string& stop : strings_) {
    for (std::size_t size = std::min(stop.size() - 1, held_.size()); size > keep; --size) {
      if (held_.ends_with(std::string_view(stop).substr(0, size))) keep = size;
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopMatcher::finish() { return matched_ ? std::string() : std::exchange(held_, {}); }

}  // namespace easydel::serve
