#include "easydel/text/jinja/builtins/string_tools.h"

#include <algorithm>
#include <cstring>

#include "easydel/text/jinja/builtins/unicode.h"

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

std::size_t find_text(std::string_view text, std::string_view mark, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, mark.data(), mark.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

std::size_t find_last_text(std::string_view text, std::string_view mark) {
  const std::string backwards(text.rbegin(), text.rend()), wanted(mark.rbegin(), mark.rend());
  const std::size_t at = find_text(backwards, wanted);
  return at == std::string::npos ? at : text.size() - at - mark.size();
}

std::string strip(std::string_view text, bool left, bool right) { return strip_where(text, left, right, is_space); }

std::string strip(std::string_view text, bool left, bool right, std::string_view set) {
  std::vector<char32_t> dropped = characters(set);
  std::sort(dropped.begin(), dropped.end());
  return strip_where(text, left, right,
                     [&](char32_t c) { return std::binary_search(dropped.begin(), dropped.end(), c); });
}

std::vector<std::string_view> split(Runtime& runtime, std::string_view text, int64_t limit) {
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
    runtime.spend(1);
  }
}

std::vector<std::string_view> split_right(Runtime& runtime, std::string_view text, int64_t limit) {
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
    runtime.spend(1);
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split(Runtime& runtime, std::string_view text, std::string_view separator,
                                    int64_t limit) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const std::size_t at = find_text(text, separator, begin);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(begin, at - begin));
    runtime.spend(1);
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string_view> split_right(Runtime& runtime, std::string_view text, std::string_view separator,
                                          int64_t limit) {
  const std::string backwards(text.rbegin(), text.rend()), wanted(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts = split(runtime, backwards, wanted, limit);
  for (std::string_view& part : parts) {  // the same part of the text itself
    const auto begin = static_cast<std::size_t>(part.data() - backwards.data());
    part = text.substr(text.size() - begin - part.size(), part.size());
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text, bool keep_ends) {
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
    runtime.spend(1);
    begin = at = after;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
                    int64_t count) {
  runtime.touch(text.size() + from.size());
  std::string out;
  std::size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    std::size_t next = from.empty() ? at : find_text(text, from, at);
    if (from.empty() && done > 0) {  // an empty text matches before every character and at the end
      if (at >= text.size()) break;
      next_character(text, next);
    }
    if (next == std::string_view::npos) break;
    out += text.substr(at, next - at);
    out += to;
    at = next + from.size();
    runtime.check_text(out.size());
    runtime.spend(1);
    runtime.touch(to.size());
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
