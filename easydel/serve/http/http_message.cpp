#include "easydel/serve/http/http_message.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"

namespace easydel::serve {

namespace {

char http_lower_char(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool http_is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

int http_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = http_lower_char(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool http_decode(std::string_view text, std::string& out) {
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return false;
      const int high = http_hex_digit(text[i + 1]), low = http_hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (http_is_control(c)) return false;
    out += c;
  }
  return true;
}

bool http_is_token(std::string_view name) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    const char lower = http_lower_char(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || kOther.find(c) != std::string_view::npos;
  });
}

void http_append_header(std::string& out, std::string_view name, std::string_view value) {
  if (!http_is_token(name)) return;  // nothing that a client could take for two headers
  out.append(name).append(": ");
  for (const char c : value) out += http_is_control(c) && c != '\t' ? ' ' : c;
  out.append("\r\n");
}

std::string_view http_error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string http_date() {
  // Not strftime: its names follow the locale.
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  gmtime_r(&now, &t);
  std::array<char, 64> text{};
  const int size = std::snprintf(
      text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[static_cast<std::size_t>(t.tm_wday)],
      t.tm_mday, kMonths[static_cast<std::size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace

HttpResponse http_error(int status, std::string_view message) {
  const Json error =
      Json::object({{"message", message}, {"type", http_error_type(status)}, {"param", nullptr}, {"code", nullptr}});
  HttpResponse response;
  response.status = status;
  response.body = Json::object({{"error", error}}).dump();
  return response;
}

std::string_view http_reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

bool http_equal(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return http_lower_char(x) == http_lower_char(y); });
}

std::string http_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = http_lower_char(c);
  return out;
}

bool http_read_target(std::string_view target, HttpRequest& request) {
  request.path.clear();
  request.query.clear();
  if (target == "*") {
    request.path = target;
    return request.method == "OPTIONS";
  }
  for (const std::string_view scheme : {"http://", "https://"}) {  // the form for proxies, which servers must take too
    if (target.size() < scheme.size() || !http_equal(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t path = target.find_first_of("/?");
    target = path == std::string_view::npos ? "/" : target.substr(path);
    if (target[0] == '?') {
      request.query = target.substr(1);
      target = "/";
    }
    break;
  }
  if (target.empty() || target[0] != '/') return false;
  if (const std::size_t mark = target.find('?'); mark != std::string_view::npos) {
    request.query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  return http_decode(target, request.path) && invalid_utf8(request.path) == std::string_view::npos;
}

HttpHead http_write_head(const HttpResponse& response, const HttpFraming& framing, HttpBodyKind kind) {
  HttpHead head;
  head.keep_alive = framing.keep_alive;
  const bool no_content = response.status == 204 || response.status == 304;
  head.has_body = !framing.is_head && !no_content;
  head.is_chunked = kind == HttpBodyKind::Stream && !framing.http_1_0;
  for (const auto& [name, value] : response.headers) {
    if (http_equal(name, "connection") && http_equal(value, "close")) head.keep_alive = false;
  }
  if (kind == HttpBodyKind::Stream && framing.http_1_0)
    head.keep_alive = false;  // the end of the body is the end of all

  std::string& out = head.bytes;
  out = concat("HTTP/1.1 ", response.status, " ", http_reason(response.status), "\r\n");
  http_append_header(out, "Date", http_date());
  if (!no_content) {
    if (!response.content_type.empty()) http_append_header(out, "Content-Type", response.content_type);
    if (kind == HttpBodyKind::Whole) http_append_header(out, "Content-Length", std::to_string(response.body.size()));
    if (head.is_chunked) http_append_header(out, "Transfer-Encoding", "chunked");
  }
  if (!head.keep_alive) {
    http_append_header(out, "Connection", "close");
  } else if (framing.http_1_0) {
    http_append_header(out, "Connection", "keep-alive");
  }
  if (!framing.allow_origin.empty()) {
    http_append_header(out, "Access-Control-Allow-Origin", framing.allow_origin);
    if (framing.allow_origin != "*") http_append_header(out, "Vary", "Origin");
  }
  for (const auto& [name, value] : response.headers) {
    const std::string lower = http_lower(name);
    const bool ours = lower == "connection" || lower == "content-length" || lower == "transfer-encoding" ||
                      lower == "date" || lower == "content-type";
    if (!ours) http_append_header(out, name, value);
  }
  out.append("\r\n");
  return head;
}

void http_append_chunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  std::array<char, 24> size{};
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  out.append(size.data(), static_cast<std::size_t>(digits)).append(bytes).append("\r\n");
}

std::string http_allow_origin(const std::vector<std::string>& allowed, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return {};
  for (const std::string& one : allowed) {
    if (one == "*") return "*";
    if (http_equal(one, origin)) return std::string(origin);
  }
  return {};
}

std::optional<HttpResponse> http_preflight(const std::vector<std::string>& allowed, const HttpRequest& request) {
  const bool is_preflight = request.method == "OPTIONS" && !request.header("origin").empty() &&
                            !request.header("access-control-request-method").empty();
  if (allowed.empty() || !is_preflight) return std::nullopt;
  if (http_allow_origin(allowed, request).empty()) return http_error(403, "This origin is not allowed.");
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
                      {"Access-Control-Max-Age", "600"}};
  // "*" would leave out Authorization, so the names that were asked for are given back.
  if (const std::string_view asked = request.header("access-control-request-headers"); !asked.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Headers", asked);
  }
  return response;
}

}  // namespace easydel::serve
