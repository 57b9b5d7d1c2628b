#include "easydel/tokenizers/jinja/string_tools.h"

#include <algorithm>

#include "easydel/tokenizers/jinja/unicode.h"

namespace easydel::jinja {
namespace {

template <class Drops>
std::string strip_where(std::string_view text, bool left, bool right, const Drops& drops) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end) {
    std::size_t next = begin;
    if (!drops(next_character(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    std::size_t before = end;
    if (!drops(last_character(text, before))) break;
    end = before;
  }
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

std::string strip(std::string_view text, bool left, bool right) { return strip_where(text, left, right, is_space); }

std::string strip(std::string_view text, bool left, bool right, std::string_view set) {
  std::vector<char32_t> dropped = characters(set);
  std::sort(dropped.begin(), dropped.end());
  return strip_where(text, left, right,
                     [&](char32_t c) { return std::binary_search(dropped.begin(), dropped.end(), c); });
}

std::vector<std::string_view> split(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  while (true) {
    while (at < text.size()) {
      std::size_t next = at;
      if (!is_space(next_character(text, next))) break;
      at = next;
    }
    if (at >= text.size()) return parts;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(text.substr(at));
      return parts;
    }
    const std::size_t begin = at;
    while (at < text.size()) {
      std::size_t next = at;
      if (is_space(next_character(text, next))) break;
      at = next;
    }
    parts.push_back(text.substr(begin, at - begin));
  }
}

std::vector<std::string_view> split_right(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  std::size_t end = text.size();
  while (true) {
    while (end > 0) {
      std::size_t before = end;
      if (!is_space(last_character(text, before))) break;
      end = before;
    }
    if (end == 0) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(text.substr(0, end));
      break;
    }
    std::size_t begin = end;
    while (begin > 0) {
      std::size_t before = begin;
      if (is_space(last_character(text, before))) break;
      begin = before;
    }
    parts.push_back(text.substr(begin, end - begin));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const std::size_t at = text.find(separator, begin);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string_view> split_right(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> parts;
  std::size_t end = text.size();
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    if (end < separator.size()) break;
    const std::size_t at = text.rfind(separator, end - separator.size());
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size(), end - at - separator.size()));
    end = at;
  }
  parts.push_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t after = at;
    const char32_t c = next_character(text, after);
    if (!is_line_break(c)) {
      at = after;
      continue;
    }
    if (c == '\r' && after < text.size() && text[after] == '\n') ++after;
    lines.push_back(text.substr(begin, (keep_ends ? after : at) - begin));
    begin = at = after;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
                    int64_t count) {
  runtime.spend(text.size() / 8);
  std::string out;
  std::size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    std::size_t next = from.empty() ? at : text.find(from, at);
    if (from.empty() && done > 0) {  // an empty text stands before every character and at the end
      if (at >= text.size()) break;
      next_character(text, next);
    }
    if (next == std::string_view::npos) break;
    out += text.substr(at, next - at);
    out += to;
    at = next + from.size();
    runtime.check_text(out.size());
    runtime.spend(1);
  }
  out += text.substr(at);
  return out;
}

std::string justify(Runtime& runtime, const std::string& text, int64_t width, char align, const std::string& fill) {
  const auto length = static_cast<int64_t>(count_characters(text));
  const int64_t missing = std::max<int64_t>(width - length, 0);
  runtime.check_text(text.size() + static_cast<std::size_t>(missing) * fill.size());
  int64_t left = align == '>' ? missing : 0;
  if (align == 'c') left = missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

}  // namespace easydel::jinja
