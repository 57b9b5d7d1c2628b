// The text of server-sent events: what a stream of `text/event-stream` consists of.
#pragma once

#include <string>
#include <string_view>

namespace easydel::serve {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";  // how OpenAI's streams end
inline constexpr std::string_view kSsePing = ": ping\n\n";  // a comment: keeps proxies from closing a quiet stream

namespace sse_detail {

// A line break inside of data would end the event early, so each line gets a "data: " of its own. CR, LF and CRLF are
// line breaks in this format.
inline void append_lines(std::string& out, std::string_view data) {
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) return;
    const bool both = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    data.remove_prefix(end + (both ? 2 : 1));
  }
}

}  // namespace sse_detail

// `data: {json}` and an empty line.
inline std::string sse_event(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 8);
  sse_detail::append_lines(out, data);
  return out += '\n';
}

// `event: name`, `data: {json}` and an empty line. The name ends at its first line break.
inline std::string sse_event(std::string_view name, std::string_view data) {
  std::string out;
  out.reserve(name.size() + data.size() + 16);
  out.append("event: ").append(name.substr(0, name.find_first_of("\r\n"))).append("\n");
  sse_detail::append_lines(out, data);
  return out += '\n';
}

}  // namespace easydel::serve
