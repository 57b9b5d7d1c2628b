#include "easydel/elarge/eval/python_text.h"

#include "easydel/text/jinja/builtins/unicode.h"

namespace easydel {

std::string_view python_strip_view(std::string_view text) {
  std::size_t begin = 0, end = text.size();
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!jinja::is_space(jinja::next_character(text, next))) break;
    begin = next;
  }
  while (end > begin) {
    std::size_t before = end;
    if (!jinja::is_space(jinja::last_character(text.substr(0, end), before))) break;
    end = before;
  }
  return text.substr(begin, end - begin);
}

std::string_view strip_left(std::string_view text, char c) {
  while (text.starts_with(c)) text.remove_prefix(1);
  return text;
}

std::string_view strip_right(std::string_view text, char c) {
  while (text.ends_with(c)) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> python_split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(separator, at);
    if (found == std::string_view::npos) {
      parts.push_back(text.substr(at));
      return parts;
    }
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
}

std::string python_replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (const std::string_view part : python_split(text, from)) {
    if (part.data() != text.data()) out += to;
    out += part;
  }
  return out;
}

}  // namespace easydel
