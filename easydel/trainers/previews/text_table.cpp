#include "easydel/trainers/previews/text_table.h"

#include <algorithm>

#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

// At most `width` characters, what is cut off shown as "…", and filled up with spaces.
std::string cell(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8::valid_length(std::string_view(text).substr(at)));
    if (++count == width && at + length < text.size()) return out + "…";
    out += text.substr(at, length);
    at += length;
  }
  return out + std::string(width - count, ' ');
}

}  // namespace

TextTable::TextTable(std::vector<std::pair<std::string, std::size_t>> columns) : columns_(std::move(columns)) {
  std::vector<std::string> names;
  for (const auto& [name, width] : columns_) names.push_back(name);
  add(std::move(names));
}

void TextTable::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::vector<std::string> TextTable::lines() const {
  std::vector<std::string> lines;
  for (const std::vector<std::string>& row : rows_) {
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i < columns_.size(); ++i) line += (i > 0 ? " │ " : "") + cell(row[i], columns_[i].second);
    while (line.ends_with(' ')) line.pop_back();
  }
  return lines;
}

std::string on_one_line(const std::string& text) {
  const std::string json = Json(text).dump();
  return json.substr(1, json.size() - 2);
}

}  // namespace easydel
