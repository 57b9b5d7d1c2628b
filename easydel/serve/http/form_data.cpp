#include "easydel/serve/http/form_data.h"

#include "easydel/core/error.h"
#include "easydel/serve/http/http_message.h"

namespace easydel::serve {
namespace {

constexpr std::size_t kMaxParts = 64, kMaxPartHeader = 8 << 10, kMaxBoundary = 70;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The value of `name` among the parameters behind the first ";" of a header, without its quotes.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  std::size_t at = header.find(';');
  while (at != std::string_view::npos && at < header.size()) {
    const std::size_t equals = header.find('=', ++at);
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = trimmed(header.substr(at, equals - at));
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size() && (header[at + 1] == '"' || header[at + 1] == '\\')) ++at;
        value += header[at];
      }
      at = header.find(';', at);
    } else {
      const std::size_t end = header.find(';', at);
      value = trimmed(header.substr(at, end == std::string_view::npos ? end : end - at));
      at = end;
    }
    if (http_equal(key, name)) return value;
  }
  return std::nullopt;
}

std::string_view disposition(std::string_view headers) {
  while (!headers.empty()) {
    const std::size_t end = headers.find("\r\n");
    const std::string_view line = headers.substr(0, end);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && http_equal(trimmed(line.substr(0, colon)), "content-disposition"))
      return line.substr(colon + 1);
    if (end == std::string_view::npos) break;
    headers.remove_prefix(end + 2);
  }
  return {};
}

}  // namespace

std::vector<FormPart> read_form_data(const HttpRequest& request) {
  const std::string_view type = request.header("content-type");
  require<FormatError>(http_equal(trimmed(type.substr(0, type.find(';'))), "multipart/form-data"),
                       "the body must be multipart/form-data; got \"", type, "\".");
  const std::string boundary = parameter(type, "boundary").value_or("");
  require<FormatError>(!boundary.empty() && boundary.size() <= kMaxBoundary,
                       "multipart/form-data needs a boundary of 1 to ", kMaxBoundary, " characters; got ",
                       boundary.size(), ".");
  const std::string delimiter = "--" + boundary;
  std::string_view rest = request.body;
  std::size_t at = rest.find(delimiter);
  require<FormatError>(at != std::string_view::npos, "the form has no part: its boundary is not in the body.");
  std::vector<FormPart> parts;
  for (;;) {
    rest.remove_prefix(at + delimiter.size());
    if (rest.starts_with("--")) return parts;
    require<FormatError>(rest.starts_with("\r\n"), "the form must have a line break after each boundary.");
    require<FormatError>(parts.size() < kMaxParts, "a form may have ", kMaxParts, " parts; got more.");
    const std::size_t head = rest.find("\r\n\r\n");
    require<FormatError>(head != std::string_view::npos && head <= kMaxPartHeader, "part ", parts.size() + 1,
                         " of the form has no end of its headers within ", kMaxPartHeader, " bytes.");
    const std::string_view line = disposition(rest.substr(2, head < 2 ? 0 : head - 2));
    FormPart part{.name = parameter(line, "name").value_or(""), .filename = parameter(line, "filename"), .value = {}};
    require<FormatError>(!part.name.empty(), "part ", parts.size() + 1,
                         " of the form has no Content-Disposition with a name.");
    rest.remove_prefix(head + 4);
    at = rest.find("\r\n" + delimiter);
    require<FormatError>(at != std::string_view::npos, "the form ends within its part \"", part.name, "\".");
    part.value = rest.substr(0, at);
    parts.push_back(std::move(part));
    at += 2;
  }
}

}  // namespace easydel::serve
