#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/trainers/previews/previews.h"

namespace easydel {
namespace {

// On one line, at most so many characters, and what is cut off shown as "…".
std::string cell(const std::string& text, std::size_t width) {
  std::string quoted = Json(text).dump();
  quoted = quoted.substr(1, quoted.size() - 2);
  std::string out;
  std::size_t count = 0;
  for (std::size_t at = 0; at < quoted.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8::valid_length(std::string_view(quoted).substr(at)));
    if (++count == width && at + length < quoted.size()) return out + "…";
    out += quoted.substr(at, length);
    at += length;
  }
  return out + std::string(width - count, ' ');
}

}  // namespace

std::vector<std::string> preview_table(const Json& previews, int64_t step, std::size_t width) {
  const std::size_t prompt = width * 2 / 5, completion = width - prompt - 3;
  std::vector<std::string> lines{concat("[preview] after step ", step), cell("prompt", prompt) + " │ " + "completion"};
  std::string before;
  for (const Json& each : previews.as_array()) {
    const std::string& text = each.at("prompt").as_string();
    std::string row =
        cell(text == before ? "" : text, prompt) + " │ " + cell(each.at("completion").as_string(), completion);
    while (row.ends_with(' ')) row.pop_back();
    lines.push_back(std::move(row));
    before = text;
  }
  return lines;
}

}  // namespace easydel
